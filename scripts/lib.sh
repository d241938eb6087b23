# What the scripts share: messages, timed steps, a Python environment, presets.
# shellcheck shell=bash

repo_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck disable=SC2034  # for the scripts that read this file
cache_dir=${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll

# say TEXT...: a line for a person, on stderr so that stdout stays data.
say() { printf '%s\n' "$*" >&2; }

# die TEXT...: says what is wrong and ends the script.
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# usage: what the head of the script that runs says.
usage() { sed -n -e '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }

# read_flags OTHER ARGUMENT...: reads what image.sh and package.sh both take into
# is_arm64, is_tested and root, and calls OTHER with each further argument. OTHER
# fails for what it does not know.
# shellcheck disable=SC2034  # for the scripts that read this file
read_flags() {
  local other=$1
  shift
  while (($#)); do
    case $1 in
      --arm64) is_arm64=1 ;;
      --test) is_tested=1 ;;
      --root)
        (($# >= 2)) || die "--root takes a folder"
        root=$2
        shift
        ;;
      -h | --help)
        usage
        exit 0
        ;;
      *) "$other" "$1" || die "unknown argument $1; see $0 --help" ;;
    esac
    shift
  done
}

# step TITLE COMMAND...: prints the title, runs the command, prints its time.
step() {
  local title=$1 start=$SECONDS
  shift
  say "==> $title"
  "$@"
  say "    $title: $((SECONDS - start)) s"
}

# debian_mirror SUITE: where this machine gets the suite's packages from; nothing if
# that is not known, and debootstrap has a default.
debian_mirror() {
  # shellcheck disable=SC2016  # apt fills these in
  apt-get indextargets --format '$(REPO_URI)' "Codename: $1" 'Component: main' |
    sed -e 's,/$,,' -n -e 1p
}

# remove_system FOLDER: removes a system of another root, and nothing that is mounted
# there.
remove_system() {
  umount "$1/proc" 2>/dev/null || true
  rm -rf --one-file-system "$1"
}

# venv FOLDER REQUIREMENT...: makes a Python environment with the pip
# requirements given, unless it already has exactly these. System packages stay
# untouched, as Debian asks (PEP 668).
venv() {
  local folder=$1
  shift
  if [[ -x $folder/bin/python && -f $folder/.requirements ]] &&
    [[ $(<"$folder/.requirements") == "$*" ]]; then
    return 0
  fi
  say "making a Python environment in $folder${*:+ with $*}"
  rm -rf "$folder"
  python3 -m venv "$folder" >&2 || return
  if (($#)); then
    "$folder/bin/pip" install --quiet --disable-pip-version-check "$@" >&2 ||
      return
  fi
  printf '%s\n' "$*" >"$folder/.requirements"
}

# pinned FILE: the requirements of a requirements.txt, one word each.
pinned() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$1"; }

# fetch_part_of_peer FOLDER DEPTH PATTERN: puts those files of llama-cpp-python's
# sources that match the pattern into the folder, without the first folders of
# their paths, unless it is there, and prints the folder.
fetch_part_of_peer() {
  local folder=$1 depth=$2 pattern=$3 partial
  if [[ -d $folder ]]; then
    say "already here: $folder"
    printf '%s\n' "$folder"
    return
  fi
  mkdir -p "$(dirname "$folder")"
  partial=$(mktemp -d "$folder-XXXXXX")
  # shellcheck disable=SC2064  # the folder of this call
  trap "rm -rf '$partial'" EXIT
  python3 -m venv "$partial/venv"
  "$partial/venv/bin/pip" download --quiet --no-deps --no-binary :all: \
    --dest "$partial" llama-cpp-python==0.3.36 >&2
  mkdir "$partial/part"
  tar --extract --gzip --file "$partial"/*.tar.gz --directory "$partial/part" \
    --strip-components "$depth" --wildcards "$pattern"
  mv "$partial/part" "$folder"
  printf '%s\n' "$folder"
}

# Two checkouts with the same sources share what ccache keeps.
export CCACHE_BASEDIR=$repo_root CCACHE_NOHASHDIR=1
# What is not kept yet is compiled at once, and not preprocessed first.
export CCACHE_DEPEND=1
# Without it ccache keeps nothing that reads compiled headers.
export CCACHE_SLOPPINESS=pch_defines,time_macros

# configure PRESET ARGUMENT...: runs CMake, with ccache where it is installed. With
# PLIMSOLL_WERROR=ON in the environment, warnings are errors.
configure() {
  local preset=$1
  shift
  if command -v ccache >/dev/null; then
    set -- -DCMAKE_CXX_COMPILER_LAUNCHER=ccache "$@"
  fi
  (cd "$repo_root" &&
    cmake --preset "$preset" -DPLIMSOLL_WERROR="${PLIMSOLL_WERROR:-OFF}" "$@" >&2)
}

# The end-to-end tests are a ctest test of their own where their Python
# environment exists.
e2e_venv=$repo_root/build/e2e-venv

# configure_tests: build/release with everything that scripts/test.sh builds, as
# PLIMSOLL_UNITY, PLIMSOLL_LONG_TESTS and PLIMSOLL_CUDA in the environment say.
configure_tests() {
  local python=
  local unity=${PLIMSOLL_UNITY:-}
  [[ -x $e2e_venv/bin/python ]] && python=$e2e_venv/bin/python
  [[ -e $repo_root/build/release/CMakeCache.txt ]] || unity=${unity:-ON}
  configure release -DPLIMSOLL_TESTS=ON -DPLIMSOLL_BENCH=ON \
    -DPLIMSOLL_CUDA="${PLIMSOLL_CUDA:-AUTO}" \
    ${unity:+"-DCMAKE_UNITY_BUILD=$unity"} \
    -DPLIMSOLL_LONG_TESTS="${PLIMSOLL_LONG_TESTS:-OFF}" \
    -DPLIMSOLL_E2E_PYTHON="$python"
}

# build PRESET TARGET...: builds the targets, or everything if none is named.
build() {
  local preset=$1
  shift
  (cd "$repo_root" && cmake --build --preset "$preset" ${1:+--target "$@"} >&2)
}
