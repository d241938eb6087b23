#!/usr/bin/env bash
# Unpacks the arm64 libraries of cross builds (cmake/aarch64.cmake) into
# build/arm64-sysroot.
#
# Usage: scripts/arm64_sysroot.sh
#
# apt-get resolves and fetches the packages with lists and a package database of
# its own, below build/: no foreign architecture is added to the host, nothing
# is installed on it, and root is not needed. Does nothing if the folder already
# has exactly these packages; remove it to fetch newer ones.
#
# var/lib/dpkg in the folder is a database of dpkg that names the files by their
# paths on this machine. With it dpkg-query and dpkg-shlibdeps tell which package
# a library of the folder is of.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The libraries of `install_deps.sh --build`, and those of the kernels' tests. gRPC's
# CMake files fail without the plugin of protobuf-compiler-grpc, which is not run.
packages=(
  golang-github-gogo-googleapis-dev libabsl-dev libboost-dev libcli11-dev
  libcurl4-openssl-dev libedit-dev libgmock-dev libgrpc++-dev libgtest-dev
  libhwy-dev libpcre2-dev libprotobuf-dev libspdlog-dev libsqlite3-dev libssl-dev
  nlohmann-json3-dev prometheus-cpp-dev protobuf-compiler-grpc
)
sysroot=$repo_root/build/arm64-sysroot
apt_root=$repo_root/build/arm64-apt
database=$sysroot/var/lib/dpkg

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

# unpack FILE: puts the files of a package into the folder, and its entry into the
# database there, as dpkg would without running its scripts.
unpack() {
  local entry control=$apt_root/control name file
  dpkg-deb -x "$1" "$sysroot"
  rm -rf "$control"
  dpkg-deb -e "$1" "$control"
  name=$(dpkg-deb -f "$1" Package)
  if [[ $(dpkg-deb -f "$1" Multi-Arch) == same ]]; then name+=:arm64; fi
  for file in symbols shlibs; do
    [[ ! -f $control/$file ]] || cp "$control/$file" "$database/info/$name.$file"
  done
  dpkg-deb --fsys-tarfile "$1" | tar -t |
    sed -e "s,^\.,$sysroot," -e 's,/$,,' >"$database/info/$name.list"
  entry=$(sed -e '/^Package:/a Status: install ok installed' "$control/control")
  printf '%s\n\n' "$entry" >>"$database/status"
}

say "Fetching ${packages[*]} and what they need, for arm64"
fetch ||
  die "cannot fetch the arm64 packages: is there a network, and do the" \
    "sources of /etc/apt serve this architecture? Nothing was built for ARM."
mkdir -p "$database/info" "$database/updates"
echo 1 >"$database/info/format"
dpkg --print-architecture >"$database/arch"
echo arm64 >>"$database/arch"
# The cross compiler brings the C library's headers and its linker scripts; these
# would name paths of the host.
rm -f "$apt_root"/cache/archives/libc6-dev_*.deb
for package in "$apt_root"/cache/archives/*.deb; do unpack "$package"; done
# Links to absolute paths would lead out of the folder. The linker would then take the
# static library beside a shared one.
while read -r link; do
  ln -sfn "$sysroot$(readlink "$link")" "$link"
done < <(find "$sysroot" -type l -lname '/*')
rm -rf "$apt_root"
printf '%s\n' "${packages[*]}" >"$sysroot/.packages"
