#!/usr/bin/env bash
# Puts promtool, which plays the alerts of deploy/prometheus, into
# build/promtool/promtool.
#
# Usage: scripts/fetch_promtool.sh
#
# It is unpacked from Debian's package prometheus (19 MB), which is not installed,
# because it would start a server. Does nothing if the file is there already.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

folder=$repo_root/build/promtool
if [[ -x $folder/promtool ]]; then
  say "$folder has promtool already."
  exit 0
fi
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
# apt's own user may not enter the folder.
apt-get -q -o APT::Sandbox::User=root download prometheus >&2 ||
  die "cannot fetch Debian's package prometheus; does apt-get update succeed?"
dpkg-deb --fsys-tarfile prometheus_*.deb |
  tar -x --strip-components=3 ./usr/bin/promtool
rm prometheus_*.deb
