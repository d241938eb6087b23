#!/usr/bin/env bash
# Runs the CUDA kernels on a device: their tests, compute-sanitizer where it is
# installed, and the benchmark. Builds nothing, so that the machine with the
# device needs neither a compiler nor our libraries.
#
# Usage: scripts/gpu_test.sh --collect BUILD FOLDER  here: what is to be run, and
#                                                    FOLDER.tar.gz (35 MB)
#        scripts/gpu_test.sh FOLDER [LOGS]           there: runs it
#
# Exits with 77 if there is no device, 1 if anything failed. LOGS, by default
# FOLDER/logs, gets the whole output of each step; the last lines printed are a
# table of them.
set -euo pipefail

tests='backend weights elementwise store_rows mat_mul mat_mul_top attention
  attention_types attention_spans step top_k'
# Those run under compute-sanitizer too, which slows kernels down a lot.
checked='weights elementwise store_rows mat_mul attention step top_k'
step_seconds=240

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# collect BUILD FOLDER: binaries, and the libraries that they load except those
# of the compilers and of the driver: the machine's own tools load those too.
collect() {
  local build=$1 folder=$2 name binary library
  mkdir -p "$folder/bin" "$folder/lib"
  for name in $tests; do
    binary=$build/bin/kernels_${name}_test
    [[ -x $binary ]] || die "there is no $binary"
    cp "$binary" "$folder/bin/"
  done
  [[ -x $build/bin/cuda_bench ]] || die "there is no $build/bin/cuda_bench"
  cp "$build/bin/cuda_bench" "$folder/bin/"
  cp "${BASH_SOURCE[0]}" "$folder/"
  for binary in "$folder"/bin/*; do
    ldd "$binary" | awk '$3 ~ /^\// { print $3 }'
  done | sort -u | while read -r library; do
    case ${library##*/} in
      libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | \
        ld-linux* | libstdc++.so* | libgcc_s.so* | libcuda.so*) ;;
      *) cp -L "$library" "$folder/lib/" ;;
    esac
  done
  tar -C "$(dirname "$folder")" -czf "$folder.tar.gz" "$(basename "$folder")"
  du -sh "$folder" "$folder.tar.gz"
}

table=()
failed=0

# run_step NAME COMMAND...: keeps the output in a log, and a line in the table.
run_step() {
  local name=$1 status=0 start=$SECONDS summary
  shift
  timeout "$step_seconds" "$@" >"$logs/$name.log" 2>&1 || status=$?
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

run_all() {
  local folder=$1 name
  export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  nvidia-smi || {
    echo 'SKIPPED: there is no device' >&2
    exit 77
  }
  show_device
  for name in $tests; do
    run_step "$name" "$folder/bin/kernels_${name}_test" \
      --gtest_filter='*cuda_0*:CudaBackendTest.*'
  done
  printf '%s\n' "${table[@]}"
  show_device
  run_step bench "$folder/bin/cuda_bench"
  show_device # clocks right after work
  cat "$logs/bench.log"
  if command -v compute-sanitizer >/dev/null; then
    for name in $checked; do
      run_step "memcheck_$name" compute-sanitizer --tool memcheck \
        --error-exitcode 9 "$folder/bin/kernels_${name}_test" \
        --gtest_filter='*cuda_0*'
    done
    run_step racecheck_mat_mul compute-sanitizer --tool racecheck \
      --error-exitcode 9 "$folder/bin/kernels_mat_mul_test" \
      --gtest_filter='*Agrees*cuda_0*'
    run_step racecheck_top_k compute-sanitizer --tool racecheck \
      --error-exitcode 9 "$folder/bin/kernels_top_k_test" \
      --gtest_filter='*Ascending*cuda_0*'
    run_step racecheck_attention compute-sanitizer --tool racecheck \
      --error-exitcode 9 "$folder/bin/kernels_attention_test" \
      --gtest_filter='*Evicted*cuda_0*'
  else
    table+=('compute-sanitizer            not installed: not run')
  fi
  printf '\n%s\n' "${table[@]}"
  exit "$failed"
}

case ${1:-} in
  --collect)
    (($# == 3)) || die 'usage: gpu_test.sh --collect BUILD FOLDER'
    collect "$2" "$3"
    ;;
  '' | -*) die 'usage: gpu_test.sh FOLDER [LOGS]' ;;
  *)
    logs=${2:-$1/logs}
    mkdir -p "$logs"
    run_all "$(cd "$1" && pwd)"
    ;;
esac
