#!/usr/bin/env bash
# Makes a bare Debian 12 in a folder, unless it is there already.
#
# Usage: scripts/debian_base.sh ARCHITECTURE FOLDER
#   ARCHITECTURE  this machine's, or arm64, whose programs QEMU runs
#
# It has what apt needs and no more, and this machine's mirror. FOLDER.complete says
# that it is whole. Needs root and debootstrap; for arm64 qemu-user-static, too.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

suite=bookworm

# configure_system: runs what packages of another architecture run when they are
# installed. No device can be made in its namespace, and debootstrap does not ask for
# that in containers of LXC.
configure_system() {
  local device name major minor
  for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0 \
    console:5:1 ptmx:5:2; do
    IFS=: read -r name major minor <<<"$device"
    [[ -e $folder/dev/$name ]] ||
      mknod -m 666 "$folder/dev/$name" c "$major" "$minor"
  done
  mount -t proc proc "$folder/proc"
  container=lxc python3 "$repo_root/scripts/emulated.py" chroot "$folder" \
    /debootstrap/debootstrap --second-stage >&2 ||
    die "see $folder/debootstrap/debootstrap.log"
  umount "$folder/proc" 2>/dev/null || true # debootstrap may have done so
}

(($# == 2)) || die "see the head of this script"
architecture=$1 folder=$2
((EUID == 0)) || die "a bare Debian needs root"
command -v debootstrap >/dev/null ||
  die "there is no debootstrap; scripts/install_deps.sh --packages installs it"
[[ ! -e $folder.complete ]] || exit 0
foreign=()
if [[ $architecture != "$(dpkg --print-architecture)" ]]; then
  foreign=(--foreign)
fi
mirror=$(debian_mirror "$suite")
remove_system "$folder"
mkdir -p "$folder"
debootstrap --arch="$architecture" --variant=minbase "${foreign[@]}" "$suite" \
  "$folder" ${mirror:+"$mirror"} >&2
((${#foreign[@]} == 0)) || configure_system
printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n' \
  "$(awk '{ print $2; exit }' "$folder/etc/apt/sources.list")" "$suite" \
  >"$folder/etc/apt/sources.list.d/debian.sources"
: >"$folder/etc/apt/sources.list"
touch "$folder.complete"
