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

fetch_part_of_peer "$cache_dir/templates" 5 \
  '*/vendor/llama.cpp/models/templates/*.jinja'
