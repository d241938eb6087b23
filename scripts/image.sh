#!/usr/bin/env bash
# Builds the image of deploy/docker/Dockerfile.cpu where there is no Docker.
#
# Usage: scripts/image.sh [--arm64] [--test] [--root FOLDER]
#   --arm64  builds the image for 64-bit ARM: its programs are cross-built, and QEMU
#           runs what has to run in it
#   --test  builds it once more, which must give the same image, and runs the
#           programs of the written archive; needs the small test model
#   --root FOLDER  where the bare Debian and the layers are (build/image)
#
# Buildah builds it, as root, on a bare Debian 12 that debootstrap makes: nothing is
# fetched but packages. dist/plimsoll-cpu_VERSION_ARCHITECTURE.oci.tar is an archive
# that containerd, Podman and Docker load. scripts/install_deps.sh --image installs
# the tools; with --arm64 add its --arm64.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

dist=$repo_root/dist
root=$repo_root/build/image
host=$(dpkg --print-architecture)
architecture=$host
base_image=debian:bookworm-slim   # what the Dockerfile begins with
system_image=debian:bookworm-slim # what its last stage begins with
is_arm64=
is_tested=
emulation=() # runs a command that may run programs of ARCHITECTURE
build_flags=() run_flags=()

for_arm64() {
  architecture=arm64 system_image=debian-arm64:bookworm-slim
  emulation=(python3 "$repo_root/scripts/emulated.py")
  build_flags=(--build-arg FOR_ARM64=yes --build-arg SYSTEM="$system_image")
  run_flags=(--env QEMU_CPU=cortex-a53) # no more than ARMv8.0
}

check_tools() {
  local tool tools=(buildah debootstrap)
  [[ $architecture == "$host" ]] || tools+=(qemu-aarch64-static)
  for tool in "${tools[@]}"; do
    command -v "$tool" >/dev/null ||
      die "there is no $tool; scripts/install_deps.sh --image" \
        "${emulation:+--arm64 }installs it"
  done
  ((EUID == 0)) || die "Buildah needs root here"
}

# images STORE ARGUMENT...: Buildah with the images of one store.
images() {
  local store=$root/$1
  shift
  "${emulation[@]}" buildah --storage-driver vfs --root "$store/images" \
    --runroot "$store/run" "$@"
}

# make_base ARCHITECTURE IMAGE: an image of a bare Debian. What runs the image fills
# /dev, and no device can be made in the namespace of an emulated build.
make_base() {
  local container
  ! images store inspect --type image "$2" >/dev/null 2>&1 || return 0
  "$repo_root/scripts/debian_base.sh" "$1" "$root/$1" >"$root/debootstrap.log" \
    2>&1 || die "see $root/debootstrap.log"
  find "$root/$1/dev" -mindepth 1 -delete
  container=$(images store from scratch)
  images store config --os linux --arch "$1" "$container"
  images store copy --quiet "$container" "$root/$1" / >&2
  images store commit --quiet --timestamp 0 --rm "$container" "$2" >&2
  rm -f "$root/$1.complete"
  remove_system "$root/$1"
}

# build_image NAME: the image's id, which says what is in it, goes into NAME.id. The
# commands of the Dockerfile have this machine's settings of apt, which stay out of
# the image.
build_image() {
  images store bud --isolation chroot --pull-never --timestamp 0 \
    --volume /etc/apt/apt.conf.d:/etc/apt/apt.conf.d:ro \
    --file "$repo_root/deploy/docker/Dockerfile.cpu" "${build_flags[@]}" --tag "$1" \
    --iidfile "$root/$1.id" "$repo_root" >"$root/$1.log" 2>&1 || {
    tail -n 30 "$root/$1.log" >&2
    die "the image was not built; all of what was said is in $root/$1.log"
  }
}

# show_difference NAME NAME: the files in which two images differ.
show_difference() {
  local name container places=()
  for name in "$@"; do
    container=$(images store from --pull-never "$name")
    places+=("$(images store mount "$container")")
  done
  diff --recursive --brief --no-dereference "${places[@]}" >&2 || true
}

write_archive() {
  rm -f "$archive"
  images store push --quiet "$image" "oci-archive:$archive:plimsoll:cpu" >&2
}

build_again() {
  build_image again
  cmp --silent "$root/$image.id" "$root/again.id" || {
    show_difference "$image" again
    die "the same sources gave another image"
  }
}

# run_archive: the programs work as the image's user in the image's files, of which
# that user can change none.
run_archive() {
  local model container user
  model=$("$repo_root/scripts/fetch_model.sh" smollm2)
  rm -rf --one-file-system "${folder:?}/loaded"
  container=$(images loaded from "oci-archive:$archive")
  user=$(images loaded inspect --format '{{.OCIv1.Config.User}}' "$container")
  [[ $user == 65532:65532 ]] || die "the image's user is $user"
  images loaded run --isolation chroot "${run_flags[@]}" \
    --volume "$repo_root/tests/packages:/tests:ro" \
    --volume "$(dirname "$model"):/models:ro" "$container" -- \
    bash /tests/smoke.sh "/models/$(basename "$model")"
  images loaded run --isolation chroot "${run_flags[@]}" "$container" -- bash -c \
    '! find / -xdev \( -name tmp -o -path /var/lib/plimsoll -o -path /run/lock \) \
      -prune -o -writable -not -type l -print 2>/dev/null |
      grep .' || die "the image's user may change these files"
}

read_flags false "$@"
[[ -z $is_arm64 ]] || for_arm64
check_tools
mkdir -p "$root" "$dist"
version=$(sed -n 's/^project(plimsoll VERSION \([0-9.]*\).*/\1/p' "$repo_root/CMakeLists.txt")
archive=$dist/plimsoll-cpu_${version}_$architecture.oci.tar
image=plimsoll-$architecture:cpu
step "make the bare Debian" make_base "$host" "$base_image"
[[ $architecture == "$host" ]] ||
  step "make the bare Debian for $architecture" make_base "$architecture" "$system_image"
step "build the image" build_image "$image"
step "write the archive" write_archive
if [[ -n $is_tested ]]; then
  step "build the image once more" build_again
  step "run the programs of the archive" run_archive
fi
printf '%s  %d KiB  %s\n' "${archive#"$repo_root/"}" \
  $(($(stat -c %s "$archive") >> 10)) "$(<"$root/$image.id")"
