#!/usr/bin/env bash
# Runs the CUDA kernels and engines on a device: their tests, compute-sanitizer
# where it is installed, and the benchmarks, of which one writes 12B models of
# random weights (21 GB in TMPDIR). Planner and workers share the device by
# leases (gpu_leases.sh). Builds nothing, so that the machine with the device
# needs neither a compiler nor our libraries. gpu_day.sh packs what this script
# runs, and says how to run it in steps of nine minutes.
#
# Usage: scripts/gpu_test.sh --collect BUILD FOLDER [PEER]
#          here: what is to be run, stripped, and FOLDER.tar.xz; with the
#          programs of llama.cpp in the folder PEER, llama-bench and
#          llama-batched-bench, where it is given
#        scripts/gpu_test.sh [OPTION...] FOLDER [LOGS [GROUP...]]
#          there: runs it
#
#   --device cuda:0|cpu   cpu tries the script where there is no GPU, with few
#                         tests, on the emulator if BUILD has it, and small models
#   --seconds N           begin nothing and stop what runs after N seconds
#
# Groups, all of them unless some are named, in this order: kernels (their
# tests), memcheck, model (12B ones, and the peer with the same files), bench,
# leases (with such a model, or else with one of 6 layers), racecheck, engines
# (their tests), split (the same, and a 12B model, with layers on the device and
# on the host). Each takes minutes: where time is short, figures come from
# `model bench leases`.
#
# Exits with 77 if there is no device, 1 if anything failed. LOGS, by default
# FOLDER/logs, gets the whole output of each step, line by line, and in table.txt
# a line a step, so that what was done remains if the rest is cut off. The last
# lines printed are the table's.
set -euo pipefail

tests='kernels kernels_attention kernels_attention_cases kernels_mat_mul
  kernels_mat_mul_top kernels_recurrent'
# These suites run under compute-sanitizer too, which slows kernels down a lot:
# each with the test that has it.
checked='kernels:WeightsTest kernels:ElementwiseTest kernels:RmsNormTest
  kernels:PrepareHeadsTest kernels:StoreRowsTest kernels:StepTest
  kernels:TopKTest kernels:SampleTest kernels_mat_mul:MatMulTest
  kernels_mat_mul:MatMulHalfTest kernels_attention:AttentionTest'
# Tests of engines that run on whichever device PLIMSOLL_TEST_DEVICE names, and
# with their layers on it and on the host.
engine_tests='model roll mix session'
programs='plimsoll plimsoll-planner plimsoll-worker'
peer_programs='llama-bench llama-batched-bench'
groups=(kernels memcheck model bench leases racecheck engines split)
step_seconds=240
# Without a GPU only these suites are run.
tried='TopKTest StoreRowsTest AttentionValuesTest AttentionSpansTest
  GatedMatMulTest MatMulTopTest StateScanTest'
tried_engines='KvTypeTest OneLayerTest SharedPrefixTest PreemptionTest'

shards=$(($(nproc) > 15 ? 4 : $(nproc) > 7 ? 2 : 1))
device=cuda:0
seconds_in_all=0 # no limit

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# collect BUILD FOLDER [PEER]: binaries, and the libraries that they load except
# those of the compilers, of CUDA and of the driver, which the machine has.
collect() {
  local build=$1 folder=$2 peer=${3:-} name binary library
  mkdir -p "$folder/bin" "$folder/lib" "$folder/tests/testdata"
  for name in $tests; do
    binary=$build/bin/${name}_test
    [[ -x $binary ]] || die "there is no $binary"
    cp "$binary" "$folder/bin/"
  done
  for name in $engine_tests; do
    binary=$build/bin/worker_${name}_test
    [[ -x $binary ]] || die "there is no $binary"
    cp "$binary" "$folder/bin/"
  done
  cp "${BASH_SOURCE[0]%/*}/../tests/testdata/random_models.json" \
    "$folder/tests/testdata/"
  for name in worker_cuda_test model_bench $programs; do
    [[ -x $build/bin/$name ]] || die "there is no $build/bin/$name"
    cp "$build/bin/$name" "$folder/bin/"
  done
  if [[ -x $build/bin/cuda_bench ]]; then
    cp "$build/bin/cuda_bench" "$folder/bin/"
  else
    echo "there is no $build/bin/cuda_bench: this build can be tried on a CPU only" >&2
  fi
  if [[ -n $peer ]]; then
    mkdir -p "$folder/peer"
    for name in $peer_programs; do
      [[ -x $peer/$name ]] || die "there is no $peer/$name"
      cp "$peer/$name" "$folder/peer/"
    done
    strip "$folder"/peer/*
  fi
  strip "$folder"/bin/*
  cp "${BASH_SOURCE[0]}" "${BASH_SOURCE[0]%/*}/gpu_leases.sh" "$folder/"
  for binary in "$folder"/bin/* ${peer:+"$folder"/peer/*}; do
    ldd "$binary" | awk '$3 ~ /^\// { print $3 }'
  done | sort -u | while read -r library; do
    case ${library##*/} in
      libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | \
        ld-linux* | libstdc++.so* | libgcc_s.so* | libcuda.so* | \
        libcudart.so* | libcublas*.so*) ;;
      *) cp -L "$library" "$folder/lib/" ;;
    esac
  done
  # The binaries share most of their bytes, which lie tens of MB apart.
  tar -C "$(dirname "$folder")" -c "$(basename "$folder")" |
    xz --lzma2=preset=2,dict=1GiB >"$folder.tar.xz"
  du -sh "$folder" "$folder.tar.xz"
}

table=()
failed=0
declare -A running=() # the processes of the steps that run
begun=()              # their names and starts, in order
model=                # the folder of models, once there is one

# row TEXT: a line of the table, and of its file at once.
row() {
  table+=("$1")
  printf '%s\n' "$1" >>"$logs/table.txt"
}

# begin_step NAME COMMAND...: starts it, with its output in a log.
begin_step() {
  local name=$1 seconds=$step_seconds
  shift
  if ((seconds_in_all > 0 && seconds_in_all - SECONDS < seconds)); then
    seconds=$((seconds_in_all - SECONDS))
  fi
  if ((seconds < 3)); then
    failed=1
    row "$(printf '%-28s not run: no time is left' "$name")"
    return
  fi
  timeout -k 5 "$seconds" stdbuf -oL "$@" >"$logs/$name.log" 2>&1 &
  running[$name]=$!
  begun+=("$name $EPOCHSECONDS")
}

# end_steps: waits for those that were begun, with a line in the table for each.
end_steps() {
  local one
  for one in "${begun[@]}"; do
    # shellcheck disable=SC2086 # two words
    end_step $one
  done
  begun=()
}

# end_step NAME START: the step took until its log was last written to.
end_step() {
  local name=$1 status=0 log=$logs/$1.log summary
  wait "${running[$name]}" || status=$?
  unset "running[$name]"
  summary=$(grep -E \
    '^\[  (PASSED|SKIPPED|FAILED)  \] [0-9]+ test|(ERROR|RACECHECK) SUMMARY' \
    "$log" | tr '\n' ' ') || true
  if ((status == 124 || status == 137)); then
    failed=1
    status='cut off'
  elif ((status == 77)) || grep -q 'there is no CUDA device' "$log"; then
    [[ $device == cpu ]] || failed=1
    status=skipped
  elif ((status != 0)); then
    failed=1
    tail -n 25 "$log"
  fi
  row "$(printf '%-28s %4d s  status %-7s %s' "$name" \
    $(($(stat -c %Y "$log") - $2)) "$status" "$summary")"
}

# run_step NAME COMMAND...: one step with nothing beside it.
run_step() {
  begin_step "$@"
  end_steps
}

# begin_sharded NAME TEST...: a test as several processes, as most of a test's
# time is a processor's, which computes what is expected.
begin_sharded() {
  local name=$1 i
  shift
  for ((i = 0; i < shards; ++i)); do
    begin_step "${name}_$i" env GTEST_TOTAL_SHARDS="$shards" GTEST_SHARD_INDEX="$i" "$@"
  done
}

# finish: ends what runs, removes the models and prints the table.
finish() {
  local status=$? one name
  trap - EXIT
  trap '' INT TERM
  for one in "${begun[@]}"; do
    name=${one% *}
    [[ -v running[$name] ]] || continue
    if kill "${running[$name]}" 2>/dev/null; then
      row "$(printf '%-28s cut off with the script' "$name")"
    else
      end_step "$name" "${one#* }"
    fi
  done
  wait
  [[ -z $model ]] || rm -rf "$model"
  if ((${#table[@]})); then
    echo
    printf '%s\n' "${table[@]}"
  fi
  exit "$status"
}

# What figures depend on.
show_device() {
  [[ $device != cpu ]] || return 0
  nvidia-smi --format=csv --query-gpu=name,driver_version,pstate,clocks.sm,\
clocks.max.sm,clocks.mem,temperature.gpu,power.draw,power.limit,\
ecc.mode.current,memory.used || true
}

# filter_of SUITES: prints a filter for all their tests.
filter_of() {
  local suite filter=
  for suite in $1; do filter+="$suite.*:*/$suite.*:"; done
  printf '%s\n' "${filter%:}"
}

run_kernels() {
  local name filter='*cuda_0*:CudaBackendTest.*'
  if [[ $device == cpu ]]; then
    filter=$(filter_of "$tried" | sed 's/\.\*/.*cuda_*/g')
  fi
  # It has tests of the device's memory, which nothing else may take meanwhile.
  run_step kernels "$folder/bin/kernels_test" --gtest_filter="$filter"
  for name in $tests; do
    [[ $name != kernels ]] || continue
    begin_sharded "$name" "$folder/bin/${name}_test" --gtest_filter="$filter"
  done
  end_steps
}

run_bench() {
  if [[ ! -x $folder/bin/cuda_bench ]]; then
    row 'bench                        not run: the build has no CUDA'
    return
  fi
  show_device
  run_step bench "$folder/bin/cuda_bench"
  show_device # clocks right after work
  cat "$logs/bench.log"
}

# make_model_folder: sets `model` to a folder for models, once.
make_model_folder() { [[ -n $model ]] || model=$(mktemp -d); }

# bench_model NAME FLAG...: model_bench on the device, smaller on a CPU.
bench_model() {
  local name=$1 small=()
  shift
  [[ $device != cpu ]] || small=(--layers 2 --prompt 64 --tokens 8)
  run_step "$name" "$folder/bin/model_bench" "$@" "${small[@]}"
  cat "$logs/$name.log"
}

# bench_peer TYPE FILE: llama.cpp with the same file, all layers on the device:
# prefill with two sizes of batches, decode of one, and of several at once.
bench_peer() {
  local type=$1 name common=(-m "$2" -ngl 99 -ctk f16 -ctv f16)
  local n_prompt=4096 n_tokens=64 repeats=3
  if [[ ! -d $folder/peer ]]; then
    row "$(printf '%-28s not run: there is no peer' "peer_$type")"
    return
  fi
  if [[ $device == cpu ]]; then n_prompt=64 n_tokens=8 repeats=1; fi
  if ldd "$folder/peer/llama-bench" | grep 'not found'; then
    [[ $device == cpu ]] || failed=1
    row "$(printf '%-28s not run: it lacks libraries' "peer_$type")"
    return
  fi
  run_step "peer_${type}_prefill" "$folder/peer/llama-bench" "${common[@]}" -fa 1 \
    -b 4096 -ub 512,2048 -p "$n_prompt" -n 0 -r "$repeats"
  run_step "peer_${type}_decode" "$folder/peer/llama-bench" "${common[@]}" -fa 1 \
    -p 0 -n "$n_tokens" -r "$repeats"
  run_step "peer_${type}_batched" "$folder/peer/llama-batched-bench" "${common[@]}" \
    -fa on -c 8192 -b 2048 -ub 512 -npp 16 -ntg "$n_tokens" -npl 1,8,32
  for name in prefill decode batched; do
    grep '^|' "$logs/peer_${type}_$name.log" || true
  done
}

run_model() {
  local type
  make_model_folder
  for type in q4_0 q8_0; do
    bench_model "model_$type" --type "$type" --device "$device" \
      --file "$model/$type.gguf"
    bench_peer "$type" "$model/$type.gguf"
  done
  rm -f "$model/q8_0.gguf"
}

run_leases() {
  local file options=()
  make_model_folder
  file=$model/q4_0.gguf
  if [[ ! -s $file ]]; then
    # One of its layers has full attention, so that a context can be large.
    file=$model/6_layers.gguf
    bench_model model_6_layers --type q4_0 --device "$device" --layers 6 \
      --prompt 64 --tokens 8 --file "$file"
  fi
  [[ $device != cpu ]] ||
    options=(--device cpu --first-memory $((2 << 30)) --tokens 64)
  run_step leases "$folder/gpu_leases.sh" --bin "$folder/bin" \
    --logs "$logs/leases" "${options[@]}" "$file"
  cat "$logs/leases.log"
}

# run_engines_on DEVICE SUFFIX: the engines' tests, with the device that they
# are to take. Their promises are of bits, which rows of one kernel share.
run_engines_on() {
  local name filter='*'
  [[ $device != cpu ]] || filter=$(filter_of "$tried_engines")
  for name in $engine_tests; do
    begin_sharded "worker_$name$2" env -C "$folder" PLIMSOLL_TEST_SAME_BITS=1 \
      PLIMSOLL_TEST_DEVICE="$1" "$folder/bin/worker_${name}_test" \
      --gtest_filter="$filter"
  done
  end_steps
}

run_engines() {
  run_step worker "$folder/bin/worker_cuda_test" \
    --gtest_filter='*cuda_0*:AcceleratorTest.*'
  run_engines_on "$device" ''
}

run_split() {
  make_model_folder
  # About half of the layers on the host.
  if [[ $device == cpu ]]; then
    bench_model model_split --type q4_0 --device cpu,cpu --memory-mib 1300 \
      --file "$model/q4_0.gguf"
  else
    bench_model model_split --type q4_0 --device "$device,cpu" --memory-mib 4096 \
      --prompt 1024 --file "$model/q4_0.gguf"
  fi
  run_engines_on "$device,cpu" _split
}

# sanitize TOOL TEST:SUITE FILTER: the chosen cases of a suite under a tool.
sanitize() {
  local tool=$1 test=${2%:*} suite=${2#*:} filter=$3
  run_step "${tool}_$suite" compute-sanitizer --tool "$tool" \
    --error-exitcode 9 "$folder/bin/${test}_test" \
    --gtest_filter="*/$suite.$filter"
}

# can_sanitize TOOL: a line in the table where it cannot run.
can_sanitize() {
  local why=
  command -v compute-sanitizer >/dev/null || why='it is not installed'
  [[ $device != cpu ]] || why='there is no device'
  [[ -n $why ]] || return 0
  row "$(printf '%-28s not run: %s' "$1" "$why")"
  return 1
}

run_memcheck() {
  local suite
  can_sanitize memcheck || return 0
  for suite in $checked; do sanitize memcheck "$suite" '*cuda_0*'; done
}

run_racecheck() {
  can_sanitize racecheck || return 0
  sanitize racecheck kernels_mat_mul:MatMulTest '*Agrees*cuda_0*'
  sanitize racecheck kernels_mat_mul:MatMulHalfTest '*AnyBatch*cuda_0*'
  sanitize racecheck kernels:TopKTest '*Ascending*cuda_0*'
  sanitize racecheck kernels:SampleTest '*Ties*cuda_0*'
  sanitize racecheck kernels_attention:AttentionTest '*Evicted*cuda_0*'
}

# run_groups GROUP...: in $folder, with a table at the end.
run_groups() {
  local group
  for group in "$@"; do
    [[ " ${groups[*]} " == *" $group "* ]] ||
      die "there is no group $group; those are: ${groups[*]}"
  done
  export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  [[ $device == cpu ]] || nvidia-smi || {
    echo 'SKIPPED: there is no device' >&2
    exit 77
  }
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  for group in "$@"; do "run_$group"; done
  show_device
  exit "$failed"
}

if [[ ${1:-} == --collect ]]; then
  (($# == 3 || $# == 4)) || die 'usage: gpu_test.sh --collect BUILD FOLDER [PEER]'
  collect "${@:2}"
else
  while [[ ${1:-} == -* ]]; do
    case $1 in
      --device) device=${2:?} ;;
      --seconds) seconds_in_all=${2:?} ;;
      *) die "unknown option $1; see the head of this script" ;;
    esac
    shift 2
  done
  (($#)) ||
    die 'usage: gpu_test.sh [--device D] [--seconds N] FOLDER [LOGS [GROUP...]]'
  mkdir -p "${2:-$1/logs}"
  logs=$(cd "${2:-$1/logs}" && pwd)
  folder=$(cd "$1" && pwd)
  shift "$(($# < 2 ? $# : 2))"
  (($#)) || set -- "${groups[@]}"
  run_groups "$@"
fi
