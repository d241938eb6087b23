#!/usr/bin/env bash
# Installs a package in a bare Debian 12 that has nothing of what built it, and
# runs tests/packages/smoke.sh there.
#
# Usage: bare_debian.sh ARCHITECTURE FOLDER MODEL deb FILE.deb
#        bare_debian.sh ARCHITECTURE FOLDER MODEL wheels PROGRAMS.whl CLIENT.whl
#
# ARCHITECTURE is this machine's, or arm64: QEMU then runs everything in the bare
# system, as a CPU with no more than ARMv8.0. Needs root and debootstrap. FOLDER
# keeps the bare system, so that later runs need not fetch it again, and lists of
# packages are those of this machine: its mirror, and its settings of proxies and
# certificates.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

tests_dir=$repo_root/tests/packages

# share_network: what this machine needs to reach a network. The package
# ca-certificates makes a bundle of its own, with what is in the second place.
share_network() {
  local place
  cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
  cp -L /etc/resolv.conf "$root/etc/"
  for place in etc/ssl/certs/ca-certificates.crt \
    usr/local/share/ca-certificates/kept-bundle.crt; do
    install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$root/$place" || true
  done
  cp /etc/pip.conf "$root/etc/" 2>/dev/null || true
}

# enter COMMAND...: runs it in the system under test.
enter() {
  "${emulation[@]}" chroot "$root" env HOME=/opt LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive \
    PATH=/opt/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

install_packages() {
  enter apt-get -q update >&2
  enter apt-get -q install -y --no-install-recommends "$@" </dev/null >&2
}

smoke() { enter /opt/smoke.sh /opt/model.gguf; }

# absent PATH: the package must have left nothing there.
absent() { [[ ! -e $root$1 ]] || die "$1 is still there"; }

# check_parts LIST: a list of parts has what the programs have and need.
check_parts() {
  local package
  for package in libssl3 libgrpc29 libspdlog1.10 libcli11-dev; do
    grep -q "\"$package\"" "$1" || die "$1 lacks $package"
  done
}

test_deb() {
  local user
  cp "$1" "$root/opt/plimsoll.deb"
  install_packages /opt/plimsoll.deb
  smoke
  check_parts "$root/usr/share/doc/plimsoll/plimsoll.cdx.json"
  for user in plimsoll plimsoll-gateway; do
    enter getent passwd "$user" >&2 || die "there is no user $user"
  done
  enter test ! -e /etc/systemd/system/multi-user.target.wants/plimsoll-worker.service ||
    die "the package enables a service"
  enter systemd-analyze verify --man=no plimsoll-planner.service \
    plimsoll-worker.service plimsoll-gateway.service >&2
  # shellcheck disable=SC1091  # of the system under test
  enter bash -c 'source /usr/share/bash-completion/completions/plimsoll' ||
    die "bash does not take the completion"
  install -D -m 600 /dev/null "$root/var/lib/plimsoll/planner/leases.db"
  # Nothing changes when it is installed again, and settings survive.
  echo 'PLIMSOLL_WORKER_FLAGS="--lazy"' >"$root/etc/default/plimsoll-worker"
  enter dpkg -i /opt/plimsoll.deb >&2
  grep -q lazy "$root/etc/default/plimsoll-worker" || die "a setting is lost"
  enter apt-get -q purge -y plimsoll </dev/null >&2
  absent /usr/bin/plimsoll
  absent /etc/default/plimsoll-worker
  absent /etc/default/plimsoll-gateway
  absent /var/lib/plimsoll
}

# The wheel says what is in it, and under which licences.
check_wheel_parts() {
  local info package
  info=$(find "$root/opt/venv" -name 'plimsoll_llm-*.dist-info')
  check_parts "$info/sboms/plimsoll.cdx.json"
  for package in libssl3 libgrpc29 libcurl4 libcli11-dev; do
    [[ -s $info/licenses/$package ]] || die "there is no licence of $package"
  done
}

test_wheels() {
  local programs=$1 client=$2
  cp "$programs" "$client" "$root/opt/"
  install_packages python3 python3-venv
  [[ -z $(find "$root/usr/lib" "$root/lib" -name 'libgrpc*' -o -name 'libabsl*') ]] ||
    die "the system has libraries that the wheel shall bring"
  enter python3 -m venv /opt/venv
  enter pip install --quiet --no-index "/opt/${programs##*/}" >&2
  check_wheel_parts
  smoke
  enter pip install --quiet "/opt/${client##*/}" >&2
  enter python3 /opt/client_smoke.py /opt/model.gguf
  enter pip uninstall --quiet -y plimsoll-llm plimsoll-grpc >&2
  absent /opt/venv/bin/plimsoll
}

(($# >= 5)) || die "see the head of this script"
architecture=$1
base=$2/bookworm-$1 root=$2/test-$4-$1 model=$3 kind=$4
shift 4
"$repo_root/scripts/debian_base.sh" "$architecture" "$base"
emulation=()
if [[ $architecture != "$(dpkg --print-architecture)" ]]; then
  emulation=(python3 "$repo_root/scripts/emulated.py")
  export QEMU_CPU=cortex-a53
fi
remove_system "$root"
cp -a "$base" "$root"
trap 'remove_system "$root"' EXIT
share_network
mount -t proc proc "$root/proc"
cp "$tests_dir/smoke.sh" "$tests_dir/client_smoke.py" "$root/opt/"
cp -L "$model" "$root/opt/model.gguf"
"test_$kind" "$@"
