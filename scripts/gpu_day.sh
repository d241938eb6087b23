#!/usr/bin/env bash
# Prepares one day on a machine with a GPU: builds everything for it, packs it as
# one archive that can be carried there, and prints what to run there: three
# steps of at most nine minutes, of which each leaves its results if it is cut
# off. gpu_test.sh, which is in the archive, runs them.
#
# Usage: scripts/gpu_day.sh [OPTION...] [FOLDER]
#
#   --build DIR   a finished build, instead of building (build/gpu)
#   --peer DIR    the folder of llama-bench and llama-batched-bench: they get the
#                 same files in the same run (docs/cuda.md says how to build them)
#   --dry-run     runs the three steps here, on the CPU: few tests, on the
#                 emulator, and models of two layers
#
# FOLDER, by default build/gpu_day, gets what is packed, and FOLDER.tar.xz is the
# archive. CMAKE_BUILD_PARALLEL_LEVEL and PLIMSOLL_UNITY (scripts/test.sh) are
# read from the environment.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

max_mib=60
limit_seconds=540
# Less, so that the table is printed within the limit.
step_seconds=520
steps=('kernels memcheck' 'model bench' 'leases racecheck engines')
targets=(cuda_bench model_bench plimsoll plimsoll-planner plimsoll-worker
  kernels_test kernels_attention_test kernels_attention_cases_test
  kernels_mat_mul_test kernels_mat_mul_top_test kernels_recurrent_test
  worker_cuda_test worker_model_test worker_roll_test worker_mix_test
  worker_session_test)

build=
peer=
is_dry=
folder=

# build_all: the release preset, with machine code for Hopper, or with the
# emulator for a dry run.
build_all() {
  local cuda=ON
  build=$repo_root/build/gpu
  if [[ -n $is_dry ]]; then
    cuda=OFF
    build=$repo_root/build/gpu_dry
    targets=("${targets[@]/#cuda_bench/kernels_test}")
  fi
  configure release -B "$build" -DPLIMSOLL_TESTS=ON -DPLIMSOLL_BENCH=ON \
    -DPLIMSOLL_SERVICES=ON -DPLIMSOLL_CUDA="$cuda" \
    -DCMAKE_CUDA_ARCHITECTURES=90a -DCMAKE_UNITY_BUILD="${PLIMSOLL_UNITY:-ON}"
  cmake --build "$build" --target "${targets[@]}" >&2
}

# pack: one archive, which must be small enough to be carried.
pack() {
  local bytes
  rm -rf "$folder" "$folder.tar.xz"
  "$repo_root/scripts/gpu_test.sh" --collect "$build" "$folder" ${peer:+"$peer"} >&2
  [[ -n $is_dry || -x $folder/bin/cuda_bench ]] ||
    die "$build has no CUDA, and so nothing for a device"
  bytes=$(stat -c %s "$folder.tar.xz")
  ((bytes <= max_mib << 20)) ||
    die "$folder.tar.xz has $((bytes >> 20)) MiB, more than $max_mib${peer:+; \
the peer may hold PTX or compressed code, see docs/cuda.md}"
  say "$folder.tar.xz: $(((bytes + (1 << 20) - 1) >> 20)) MiB, at most $max_mib"
}

# print_steps: what to run where the device is.
print_steps() {
  local n name=${folder##*/}
  printf 'On the machine with the device, beside %s.tar.xz:\n\n' "$name"
  printf '   tar xf %s.tar.xz\n' "$name"
  for n in "${!steps[@]}"; do
    printf '%d. timeout %d %s/gpu_test.sh --seconds %d %s results/%d %s\n' \
      $((n + 1)) "$limit_seconds" "$name" "$step_seconds" "$name" $((n + 1)) \
      "${steps[n]}"
  done
  printf '\nEach writes results/N/table.txt and a log a program, line by line.\n'
}

# try_steps: unpacks the archive elsewhere, as the other machine does, and runs
# the steps on the CPU.
try_steps() {
  local n status=0 place
  place=$(mktemp -d)
  # shellcheck disable=SC2064 # the folder of now
  trap "rm -rf '$place'" EXIT
  tar -C "$place" -xf "$folder.tar.xz"
  for n in "${!steps[@]}"; do
    say "==> step $((n + 1)): ${steps[n]}"
    # shellcheck disable=SC2086 # one word a group
    timeout "$limit_seconds" "$place/${folder##*/}/gpu_test.sh" --device cpu \
      --seconds "$step_seconds" "$place/${folder##*/}" "$folder.results/$((n + 1))" \
      ${steps[n]} || status=1
  done
  return "$status"
}

while (($#)); do
  case $1 in
    --build | --peer)
      [[ -d ${2:-} ]] || die "$1 takes a folder"
      printf -v "${1#--}" %s "$(cd "$2" && pwd)"
      shift
      ;;
    --dry-run) is_dry=yes ;;
    -*) die "unknown option $1; see the head of this script" ;;
    *)
      [[ -z $folder ]] || die "one folder, not $folder and $1"
      folder=$1
      ;;
  esac
  shift
done
folder=${folder:-$repo_root/build/gpu_day}
mkdir -p "$(dirname "$folder")"
folder=$(cd "$(dirname "$folder")" && pwd)/$(basename "$folder")
[[ -n $build ]] || step 'build' build_all
step 'pack' pack
if [[ -n $is_dry ]]; then
  rm -rf "$folder.results"
  step 'run the three steps on the CPU' try_steps ||
    die "a step failed; the logs are in $folder.results"
fi
print_steps
