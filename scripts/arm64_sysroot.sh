#!/usr/bin/env bash
# Unpacks the arm64 libraries of the preset `neon` into build/arm64-sysroot.
#
# Usage: scripts/arm64_sysroot.sh
#
# apt-get resolves and fetches the packages with lists and a package database of
# its own, below build/: no foreign architecture is added to the host, nothing
# is installed on it, and root is not needed. Does nothing if the folder already
# has exactly these packages; remove it to fetch newer ones.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

packages=(libabsl-dev libgmock-dev libgtest-dev libhwy-dev)
sysroot=$repo_root/build/arm64-sysroot
apt_root=$repo_root/build/arm64-apt

if [[ -f $sysroot/.packages && $(<"$sysroot/.packages") == "${packages[*]}" ]]
then
  say "$sysroot has the arm64 packages already."
  exit 0
fi

rm -rf "$sysroot" "$apt_root"
mkdir -p "$sysroot" "$apt_root"/state/lists/partial \
  "$apt_root"/cache/archives/partial
: >"$apt_root/state/status" # nothing is installed, so everything is fetched
apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q
  -o APT::Architecture=arm64 -o APT::Architectures=arm64
  -o Dir::State="$apt_root/state" -o Dir::Cache="$apt_root/cache"
  -o Dir::State::status="$apt_root/state/status"
  # apt's own user may not enter the folder.
  -o APT::Sandbox::User=root)

# A source that cannot be reached is only a warning of `update`; what is missing
# then fails the second command.
fetch() {
  "${apt[@]}" update >&2 &&
    "${apt[@]}" install -y --no-install-recommends --download-only \
      "${packages[@]}" </dev/null >&2
}

say "Fetching ${packages[*]} and what they need, for arm64"
fetch ||
  die "cannot fetch the arm64 packages: is there a network, and do the" \
    "sources of /etc/apt serve this architecture? Nothing was built for ARM."
for package in "$apt_root"/cache/archives/*.deb; do
  dpkg -x "$package" "$sysroot"
done
rm -rf "$apt_root"
printf '%s\n' "${packages[*]}" >"$sysroot/.packages"
