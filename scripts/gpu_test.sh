#!/usr/bin/env bash
# Runs the CUDA kernels and engines on a device: their tests, compute-sanitizer
# where it is installed, and the benchmarks, of which one writes a 12B model of
# random weights (8 GB in TMPDIR). Planner and workers share the device by
# leases (gpu_leases.sh). Builds nothing, so that the machine with the device
# needs neither a compiler nor our libraries.
#
# Usage: scripts/gpu_test.sh --collect BUILD FOLDER  here: what is to be run,
#                                                    stripped, and FOLDER.tar.xz
#        scripts/gpu_test.sh FOLDER [LOGS [GROUP...]]  there: runs it
#
# Groups, all of them unless some are named, in this order: kernels (their
# tests), bench, model (the 12B one), leases (with that model, or else with one
# of 6 such layers), engines (their tests), sanitizer. Each takes minutes: where
# time is short, figures come from `bench model leases`.
#
# Exits with 77 if there is no device, 1 if anything failed. LOGS, by default
# FOLDER/logs, gets the whole output of each step; the last lines printed are a
# table of them.
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
groups=(kernels bench model leases engines sanitizer)
step_seconds=240
# Writing the model takes part of it.
model_seconds=420

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# collect BUILD FOLDER: binaries, and the libraries that they load except those
# of the compilers and of the driver: the machine's own tools load those too.
collect() {
  local build=$1 folder=$2 name binary library
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
  for name in worker_cuda_test cuda_bench model_bench $programs; do
    [[ -x $build/bin/$name ]] || die "there is no $build/bin/$name"
    cp "$build/bin/$name" "$folder/bin/"
  done
  strip "$folder"/bin/*
  cp "${BASH_SOURCE[0]}" "${BASH_SOURCE[0]%/*}/gpu_leases.sh" "$folder/"
  for binary in "$folder"/bin/*; do
    ldd "$binary" | awk '$3 ~ /^\// { print $3 }'
  done | sort -u | while read -r library; do
    case ${library##*/} in
      libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | \
        ld-linux* | libstdc++.so* | libgcc_s.so* | libcuda.so*) ;;
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
model= # the folder of models, once there is one

# run_step NAME COMMAND...: keeps the output in a log, and a line in the table.
run_step() {
  local name=$1 status=0 start=$SECONDS summary seconds=$step_seconds
  shift
  if [[ $name == model_* ]]; then seconds=$model_seconds; fi
  timeout "$seconds" "$@" >"$logs/$name.log" 2>&1 || status=$?
  summary=$(grep -E '^\[  (PASSED|SKIPPED|FAILED)  \] [0-9]+ test|ERROR SUMMARY' \
    "$logs/$name.log" | tr '\n' ' ') || true
  if ((status != 0)); then
    failed=1
    tail -n 25 "$logs/$name.log"
  elif grep -q 'there is no CUDA device' "$logs/$name.log"; then
    failed=1
    status=skipped
  fi
  table+=("$(printf '%-28s %4d s  status %-7s %s' "$name" \
    $((SECONDS - start)) "$status" "$summary")")
}

# What figures depend on.
show_device() {
  nvidia-smi --format=csv --query-gpu=name,driver_version,pstate,clocks.sm,\
clocks.max.sm,clocks.mem,temperature.gpu,power.draw,power.limit,\
ecc.mode.current,memory.used || true
}

run_kernels() {
  local name
  for name in $tests; do
    run_step "$name" "$folder/bin/${name}_test" \
      --gtest_filter='*cuda_0*:CudaBackendTest.*'
  done
}

run_bench() {
  show_device
  run_step bench "$folder/bin/cuda_bench"
  show_device # clocks right after work
  cat "$logs/bench.log"
}

# make_model_folder: sets `model` to a folder for models, once.
make_model_folder() {
  [[ -z $model ]] || return 0
  model=$(mktemp -d)
  trap 'rm -rf "$model"' EXIT
}

run_model() {
  make_model_folder
  run_step model_q4_0 "$folder/bin/model_bench" --type q4_0 \
    --file "$model/12b.gguf"
  cat "$logs/model_q4_0.log"
  # About half of its layers on the host.
  run_step model_split "$folder/bin/model_bench" --type q4_0 \
    --device cuda:0,cpu --memory-mib 4096 --prompt 1024 \
    --file "$model/12b.gguf"
  cat "$logs/model_split.log"
}

run_leases() {
  local file
  make_model_folder
  file=$model/12b.gguf
  if [[ ! -s $file ]]; then
    # One of its layers has full attention, so that a context can be large.
    file=$model/6_layers.gguf
    run_step model_6_layers "$folder/bin/model_bench" --type q4_0 --layers 6 \
      --prompt 64 --tokens 8 --file "$file"
  fi
  run_step leases "$folder/gpu_leases.sh" --bin "$folder/bin" \
    --logs "$logs/leases" "$file"
  cat "$logs/leases.log"
}

run_engines() {
  local name
  run_step worker "$folder/bin/worker_cuda_test" \
    --gtest_filter='*cuda_0*:AcceleratorTest.*'
  for name in $engine_tests; do
    # Their promises are of bits, which rows of one kernel share.
    run_step "worker_$name" env -C "$folder" PLIMSOLL_TEST_SAME_BITS=1 \
      PLIMSOLL_TEST_DEVICE=cuda:0 "$folder/bin/worker_${name}_test"
    run_step "worker_${name}_split" env -C "$folder" PLIMSOLL_TEST_SAME_BITS=1 \
      PLIMSOLL_TEST_DEVICE=cuda:0,cpu "$folder/bin/worker_${name}_test"
  done
}

# sanitize TOOL TEST:SUITE FILTER: the chosen cases of a suite under a tool.
sanitize() {
  local tool=$1 test=${2%:*} suite=${2#*:} filter=$3
  run_step "${tool}_$suite" compute-sanitizer --tool "$tool" \
    --error-exitcode 9 "$folder/bin/${test}_test" \
    --gtest_filter="*/$suite.$filter"
}

run_sanitizer() {
  local suite
  if ! command -v compute-sanitizer >/dev/null; then
    table+=('compute-sanitizer            not installed: not run')
    return
  fi
  for suite in $checked; do sanitize memcheck "$suite" '*cuda_0*'; done
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
  nvidia-smi || {
    echo 'SKIPPED: there is no device' >&2
    exit 77
  }
  for group in "$@"; do "run_$group"; done
  show_device
  printf '\n%s\n' "${table[@]}"
  exit "$failed"
}

case ${1:-} in
  --collect)
    (($# == 3)) || die 'usage: gpu_test.sh --collect BUILD FOLDER'
    collect "$2" "$3"
    ;;
  '' | -*) die 'usage: gpu_test.sh FOLDER [LOGS [GROUP...]]' ;;
  *)
    logs=${2:-$1/logs}
    mkdir -p "$logs"
    folder=$(cd "$1" && pwd)
    shift "$(($# < 2 ? $# : 2))"
    (($#)) || set -- "${groups[@]}"
    run_groups "$@"
    ;;
esac
