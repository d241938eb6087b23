#!/usr/bin/env bash
# Installs the Debian packages that building, testing or checking needs.
#
# Usage: scripts/install_deps.sh [--build] [--test] [--clients] [--browser]
#   [--ci] [--neon] [--packages] [--arm64] [--image]
#   --build  compiler, CMake and libraries of the four programs (the default)
#   --test   what the test suite and the benchmarks add
#   --clients  what the examples of clients/ need (Debian 12)
#   --browser  Chromium, in which the page of `plimsoll serve` is tested
#   --ci     what .ci/run adds: clang, sanitizers, linters (Debian 12)
#   --neon   what the preset `neon` needs: cross compiler and emulator for ARM
#   --packages  what scripts/package.sh adds, with its tests (Debian 12)
#   --image  what scripts/image.sh needs
#   --arm64  what scripts/package.sh --arm64 adds to that, and an emulator for ARM
# Packages that are already installed are left alone; without missing packages
# nothing is run. sudo is used only if you are not root.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

build_packages=(
  ca-certificates cmake g++ git golang-github-gogo-googleapis-dev libabsl-dev
  libboost-dev libcli11-dev libcurl4-openssl-dev libedit-dev libgrpc++-dev libhwy-dev
  libpcre2-dev libprotobuf-dev libspdlog-dev libsqlite3-dev libssl-dev ninja-build
  nlohmann-json3-dev pkg-config prometheus-cpp-dev protobuf-compiler protobuf-compiler-grpc python3 python3-venv
)
test_packages=(
  libbenchmark-dev libgmock-dev libgtest-dev librapidcheck-dev nghttp2-client
)
client_packages=(
  default-jdk-headless golang-github-golang-protobuf-1-5-dev golang-go
  golang-google-grpc-dev libgeronimo-annotation-1.3-spec-java libgrpc-java
  libguava-java libnetty-java libperfmark-java libprotobuf-java nodejs
  protobuf-compiler-grpc-java-plugin protoc-gen-go-1-5 protoc-gen-go-grpc ruby-grpc
)
browser_packages=(chromium)
ci_packages=(
  ccache clang-14 clang-format-14 clang-tidy-14 curl iproute2 libclang-rt-14-dev
  libfuzzer-14-dev lld-14 nodejs shellcheck systemd
)
neon_packages=(cmake g++-aarch64-linux-gnu ninja-build qemu-user-static)
package_packages=(binutils debootstrap dpkg-dev file lintian patchelf)
image_packages=(buildah debootstrap)
arm64_packages=(g++-aarch64-linux-gnu qemu-user-static)

check_system() {
  local id=unknown version=unknown
  if [[ -r /etc/os-release ]]; then
    id=$(. /etc/os-release && echo "${ID:-unknown}")
    version=$(. /etc/os-release && echo "${VERSION_ID:-unknown}")
  fi
  case "$id-$version" in
    debian-12 | debian-13) ;;
    ubuntu-24.04)
      say "Ubuntu 24.04 has the same package names, but is untested." ;;
    *)
      die "this script knows Debian 12, Debian 13 and Ubuntu 24.04, not" \
        "$id $version. Install these by hand: ${wanted[*]}" ;;
  esac
}

is_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

as_root() {
  if ((EUID == 0)); then
    "$@"
  else
    command -v sudo >/dev/null || die "run this as root, or install sudo"
    sudo "$@"
  fi
}

# Certificates that were put into the system's bundle by hand, such as those of a
# company's proxy, would be lost when the package makes its own bundle.
keep_certificates() {
  local bundle=/etc/ssl/certs/ca-certificates.crt
  if is_installed ca-certificates || [[ ! -s $bundle ]]; then return 0; fi
  say "Keeping the certificates of $bundle"
  as_root install -D -m 644 "$bundle" \
    /usr/local/share/ca-certificates/kept-bundle.crt
}

wanted=()
(($#)) || set -- --build
for argument in "$@"; do
  case $argument in
    --build) wanted+=("${build_packages[@]}") ;;
    --test) wanted+=("${test_packages[@]}") ;;
    --clients) wanted+=("${client_packages[@]}") ;;
    --browser) wanted+=("${browser_packages[@]}") ;;
    --ci) wanted+=("${ci_packages[@]}") ;;
    --neon) wanted+=("${neon_packages[@]}") ;;
    --packages) wanted+=("${package_packages[@]}") ;;
    --image) wanted+=("${image_packages[@]}") ;;
    --arm64) wanted+=("${arm64_packages[@]}") ;;
    *) die "unknown argument $argument; see the head of this script" ;;
  esac
done
check_system

missing=()
for package in "${wanted[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  say "All ${#wanted[@]} packages are installed already."
  exit 0
fi
say "Installing ${#missing[@]} of ${#wanted[@]} packages: ${missing[*]}"
apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q)
keep_certificates
as_root "${apt[@]}" update >&2
as_root "${apt[@]}" install -y --no-install-recommends "${missing[@]}" \
  </dev/null >&2
