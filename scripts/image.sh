#!/usr/bin/env bash
# Builds the image of deploy/docker/Dockerfile.cpu where there is no Docker.
#
# Usage: scripts/image.sh [--test] [--root FOLDER]
#   --test  builds it once more, which must give the same image, and runs the
#           programs of the written archive; needs the small test model
#   --root FOLDER  where the bare Debian and the layers are (build/image)
#
# Buildah builds it, as root, on a bare Debian 12 that debootstrap makes: nothing is
# fetched but packages. dist/plimsoll-cpu_VERSION_ARCHITECTURE.oci.tar is an archive
# that containerd, Podman and Docker load. scripts/install_deps.sh --image installs
# the tools.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

suite=bookworm
dist=$repo_root/dist
folder=$repo_root/build/image
base_image=debian:$suite-slim # what the Dockerfile begins with
is_tested=

read_arguments() {
  while (($#)); do
    case $1 in
      --test) is_tested=1 ;;
      --root)
        (($# >= 2)) || die "--root takes a folder"
        folder=$2
        shift
        ;;
      -h | --help)
        usage
        exit 0
        ;;
      *) die "unknown argument $1; see scripts/image.sh --help" ;;
    esac
    shift
  done
}

check_tools() {
  local tool
  for tool in buildah debootstrap; do
    command -v "$tool" >/dev/null ||
      die "there is no $tool; scripts/install_deps.sh --image installs it"
  done
  ((EUID == 0)) || die "Buildah needs root here"
}

# images STORE ARGUMENT...: Buildah with the images of one store.
images() {
  local store=$folder/$1
  shift
  buildah --storage-driver vfs --root "$store/images" --runroot "$store/run" "$@"
}

# make_base: the image that the Dockerfile begins with.
make_base() {
  local from container
  ! images store inspect --type image "$base_image" >/dev/null 2>&1 || return 0
  from=$(debian_mirror "$suite")
  rm -rf --one-file-system "${folder:?}/$suite"
  debootstrap --variant=minbase "$suite" "$folder/$suite" ${from:+"$from"} \
    >"$folder/debootstrap.log" || die "see $folder/debootstrap.log"
  container=$(images store from scratch)
  images store copy --quiet "$container" "$folder/$suite" / >&2
  images store commit --quiet --timestamp 0 --rm "$container" "$base_image" >&2
  rm -rf --one-file-system "${folder:?}/$suite"
}

# build_image NAME: the image's id, which says what is in it, goes into NAME.id. The
# commands of the Dockerfile have this machine's settings of apt, which stay out of
# the image.
build_image() {
  images store bud --isolation chroot --pull-never --timestamp 0 \
    --volume /etc/apt/apt.conf.d:/etc/apt/apt.conf.d:ro \
    --file "$repo_root/deploy/docker/Dockerfile.cpu" --tag "$1" \
    --iidfile "$folder/$1.id" "$repo_root" >"$folder/$1.log" 2>&1 || {
    tail -n 30 "$folder/$1.log" >&2
    die "the image was not built; all of what was said is in $folder/$1.log"
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
  images store push --quiet plimsoll:cpu "oci-archive:$archive:plimsoll:cpu" >&2
}

build_again() {
  build_image plimsoll-again
  cmp --silent "$folder/plimsoll:cpu.id" "$folder/plimsoll-again.id" || {
    show_difference plimsoll:cpu plimsoll-again
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
  images loaded run --isolation chroot \
    --volume "$repo_root/tests/packages:/tests:ro" \
    --volume "$(dirname "$model"):/models:ro" "$container" -- \
    bash /tests/smoke.sh "/models/$(basename "$model")"
  images loaded run --isolation chroot "$container" -- bash -c \
    '! find / -xdev \( -name tmp -o -path /var/lib/plimsoll -o -path /run/lock \) \
      -prune -o -writable -not -type l -print 2>/dev/null |
      grep .' || die "the image's user may change these files"
}

read_arguments "$@"
check_tools
mkdir -p "$folder" "$dist"
version=$(sed -n 's/^project(plimsoll VERSION \([0-9.]*\).*/\1/p' "$repo_root/CMakeLists.txt")
archive=$dist/plimsoll-cpu_${version}_$(dpkg --print-architecture).oci.tar
step "make the bare Debian" make_base
step "build the image" build_image plimsoll:cpu
step "write the archive" write_archive
if [[ -n $is_tested ]]; then
  step "build the image once more" build_again
  step "run the programs of the archive" run_archive
fi
printf '%s  %d KiB  %s\n' "${archive#"$repo_root/"}" \
  $(($(stat -c %s "$archive") >> 10)) "$(<"$folder/plimsoll:cpu.id")"
