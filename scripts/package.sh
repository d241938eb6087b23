#!/usr/bin/env bash
# Makes the packages that people install, and tests them in a bare Debian 12.
#
# Usage: scripts/package.sh [deb|wheel|client|all] [--arm64] [--test]
#   [--root FOLDER]
#   deb     plimsoll_VERSION_ARCHITECTURE.deb: programs, units of systemd, pages
#   wheel   plimsoll_llm: the programs for pip, with the libraries they need
#   client  plimsoll_grpc: the Python client
#   all     these three (the default)
#   --arm64  builds the programs for 64-bit ARM, and runs them under QEMU
#   --test  installs each in a bare Debian and runs it there; needs root, a
#           network and the small test model
#   --root FOLDER  where the bare systems are (build/bare)
#
# They are written to dist/. Needs Debian 12, whose libraries the wheel brings
# along, and the packages of scripts/install_deps.sh --build --packages; with --arm64
# those of its --arm64, too.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

build=$repo_root/build/package
dist=$repo_root/dist
root=$repo_root/build/bare
sysroot=$repo_root/build/arm64-sysroot
programs=(plimsoll plimsoll-gateway plimsoll-planner plimsoll-worker)
kinds=()
is_arm64=
is_tested=
architecture=$(dpkg --print-architecture) machine=$(uname -m)
for_sysroot=() # the environment in which tools look for packages in the sysroot
made=() # files in dist/

# add_kind NAME: adds a package, or all of them, to those that are made.
add_kind() {
  case $1 in
    deb | wheel | client) kinds+=("$1") ;;
    all) kinds=(deb wheel client) ;;
    *) return 1 ;;
  esac
}

for_arm64() {
  build=$repo_root/build/package-arm64
  architecture=arm64 machine=aarch64
  for_sysroot=(PLIMSOLL_SYSROOT="$sysroot" DEB_HOST_ARCH=arm64
    DPKG_ADMINDIR="$sysroot/var/lib/dpkg")
}

has() { [[ " ${kinds[*]} " == *" $1 "* ]]; }

# Asks for everything before minutes of building.
check_tools() {
  local tool
  local tools=(cmake)
  ! has deb || tools+=(dpkg-shlibdeps file)
  ! has wheel || tools+=(patchelf readelf)
  [[ -z $is_arm64 ]] || tools+=(aarch64-linux-gnu-g++ qemu-aarch64-static)
  [[ -z $is_tested ]] || tools+=(debootstrap chroot)
  for tool in "${tools[@]}"; do
    command -v "$tool" >/dev/null ||
      die "there is no $tool; scripts/install_deps.sh --build --packages" \
        "${is_arm64:+--arm64 }installs it"
  done
  [[ -z $is_tested ]] || ((EUID == 0)) || die "--test needs root"
}

# A release build of the programs alone, for the prefix /usr.
build_programs() {
  local toolchain=()
  if [[ -n $is_arm64 ]]; then
    "$repo_root/scripts/arm64_sysroot.sh"
    toolchain=(--toolchain "$repo_root/cmake/aarch64.cmake")
  fi
  configure release -B "$build" -DCMAKE_INSTALL_PREFIX=/usr \
    -DPLIMSOLL_TESTS=OFF -DPLIMSOLL_BENCH=OFF -DPLIMSOLL_CUDA=OFF \
    -DCMAKE_UNITY_BUILD=ON "${toolchain[@]}"
  cmake --build "$build" --target "${programs[@]}" >&2
}

version() { sed -n 's/^CMAKE_PROJECT_VERSION:.*=//p' "$build/CMakeCache.txt"; }

make_deb() {
  local deb
  rm -rf "$build/packages"
  env "${for_sysroot[@]}" cpack --config "$build/CPackConfig.cmake" >&2
  deb=("$build"/packages/plimsoll_*.deb)
  if command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error "${deb[0]}" >&2
  else
    say "    lintian is not installed; the package is not checked by it"
  fi
  cp "${deb[0]}" "$dist/"
  made+=("$dist/${deb[0]##*/}")
}

make_wheel() {
  local prefix=$build/stage/prefix
  rm -rf "$build/stage"
  cmake --install "$build" --prefix "$prefix" --component programs --strip >&2
  made+=("$(env "${for_sysroot[@]}" python3 "$repo_root/deploy/wheel/build.py" \
    "$prefix" "$(version)" "$dist")")
}

# By way of an sdist, which is what pip would build from. The build writes beside
# its sources, so they are copied.
make_client() {
  local folder=$build/client requirements
  mapfile -t requirements < <(grep -E '^grpcio-tools==' \
    "$repo_root/tests/e2e/requirements.txt")
  venv "$repo_root/build/client-venv" 'setuptools>=77.0.3' "${requirements[@]}"
  rm -rf "$folder"
  mkdir -p "$folder/clients"
  cp -rL "$repo_root/clients/python" "$folder/clients/"
  cp -r "$repo_root/proto" "$folder/"
  (cd "$folder/clients/python" && "$repo_root/build/client-venv/bin/python" -c \
    "import setuptools.build_meta as b; b.build_sdist('$folder')" >&2)
  "$repo_root/build/client-venv/bin/pip" wheel --quiet --no-build-isolation \
    --no-deps -w "$folder" "$folder"/plimsoll_grpc-*.tar.gz >&2
  cp "$folder"/plimsoll_grpc-*.whl "$dist/"
  made+=("$dist/$(basename "$folder"/plimsoll_grpc-*.whl)")
}

# The client is tested with the programs that it talks to.
test_packages() {
  local model
  local test=("$repo_root/tests/packages/bare_debian.sh" "$architecture" "$root")
  model=$("$repo_root/scripts/fetch_model.sh" smollm2)
  if has deb; then
    step "test the .deb in a bare Debian" \
      "${test[@]}" "$model" deb "$dist"/plimsoll_*_"$architecture".deb
  fi
  if has wheel || has client; then
    step "test the wheels in a bare Debian" "${test[@]}" "$model" wheels \
      "$dist"/plimsoll_llm-*_"$machine".whl "$dist"/plimsoll_grpc-*.whl
  fi
}

read_flags add_kind "$@"
[[ -z $is_arm64 ]] || for_arm64
((${#kinds[@]})) || kinds=(deb wheel client)
check_tools
# Earlier versions would be tested in the place of these.
mkdir -p "$dist"
! has deb || rm -f "$dist"/plimsoll_*_"$architecture".deb
! has wheel || rm -f "$dist"/plimsoll_llm-*_"$machine".whl
! has client || rm -f "$dist"/plimsoll_grpc-*.whl
# The wheels are tested together.
if [[ -n $is_tested ]]; then
  if has wheel && ! has client; then kinds+=(client); fi
  if has client && ! has wheel; then kinds+=(wheel); fi
fi
if has deb || has wheel; then step "build the programs" build_programs; fi
for kind in "${kinds[@]}"; do
  step "make the package: $kind" "make_$kind"
done
[[ -z $is_tested ]] || test_packages
for file in "${made[@]}"; do
  printf '%s  %d KiB\n' "${file#"$repo_root/"}" $(($(stat -c %s "$file") >> 10))
done
