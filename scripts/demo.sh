#!/usr/bin/env bash
# Builds Plimsoll, plans a model, loads it exactly to the plan and streams an
# answer over gRPC.
#
# Usage: scripts/demo.sh [PROMPT]
#
# Installs missing packages (sudo only if you are not root), builds the three
# binaries in build/release, fetches SmolLM2-135M (98 MB), starts a planner and
# a worker on free loopback ports and stops both at the end. Runs again in
# seconds: what is installed, built or fetched is kept.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

prompt=${1:-"In one sentence: what is a load line on a ship?"}
bin=$repo_root/build/release/bin
device_memory=2GiB
start_seconds=120  # to listen; loading the model is included

logs=$(mktemp -d)
# They are read before a program that has just been started may have made them.
touch "$logs/plimsoll-planner.log" "$logs/plimsoll-worker.log"
planner_pid=
worker_pid=

# stop PID NAME: SIGTERM, and the exit status that must be 0.
stop() {
  local status=0
  kill -TERM "$1" 2>/dev/null || true
  wait "$1" || status=$?
  ((status == 0)) || say "$2 ended with status $status"
  return "$status"
}

cleanup() {
  local status=$?
  trap - EXIT
  [[ -z $worker_pid ]] || stop "$worker_pid" plimsoll-worker || status=1
  [[ -z $planner_pid ]] || stop "$planner_pid" plimsoll-planner || status=1
  if ((status != 0)); then
    tail -n 20 "$logs"/*.log >&2 2>/dev/null || true
  fi
  rm -rf "$logs"
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# address PID NAME: waits until the program says where it listens, and sets
# `listening` to that.
address() {
  local deadline=$((SECONDS + start_seconds))
  listening=
  while [[ -z $listening ]]; do
    listening=$(sed -n 's/^listening on //p' "$logs/$2.log")
    [[ -n $listening ]] && break
    kill -0 "$1" 2>/dev/null || die "$2 ended before it was ready"
    ((SECONDS < deadline)) || die "$2 was not ready in $start_seconds s"
    sleep 0.1
  done
  say "    $2 listens on $listening"
}

start_planner() {
  # Journal and state are in a new folder, so --first counts, in a second run
  # too: nobody holds a lease of this planner. Else it would find the host's
  # mark of the first run and wait for its workers.
  XDG_STATE_HOME=$logs "$bin/plimsoll-planner" --listen 127.0.0.1:0 \
    --journal "$logs/leases.db" --first >"$logs/plimsoll-planner.log" 2>&1 &
  planner_pid=$!
  address "$planner_pid" plimsoll-planner
  planner_address=$listening
}

start_worker() {
  "$bin/plimsoll-worker" --listen 127.0.0.1:0 --planner "$planner_address" \
    --model "smollm2=$model" >"$logs/plimsoll-worker.log" 2>&1 &
  worker_pid=$!
  address "$worker_pid" plimsoll-worker
  worker_address=$listening
}

# The worker listens before its model is loaded.
wait_for_model() {
  local deadline=$((SECONDS + start_seconds))
  until "$bin/plimsoll" models --address "$worker_address" -o json |
    grep -q MODEL_STATE_READY; do
    kill -0 "$worker_pid" 2>/dev/null || die "plimsoll-worker ended"
    ((SECONDS < deadline)) || die "no model after $start_seconds s"
    sleep 0.1
  done
}

fetch() { model=$("$repo_root/scripts/fetch_model.sh" smollm2); }

# CUDA kernels take minutes to compile, so they are left out where no GPU would
# run them; PLIMSOLL_CUDA=ON in the environment asks for them all the same. A new
# build folder compiles many files at a time, in half the time; one that is
# there already stays as it is.
configure_release() {
  local options=() cuda=OFF
  if nvidia-smi --list-gpus >/dev/null 2>&1; then cuda=AUTO; fi
  if [[ ! -e $repo_root/build/release/CMakeCache.txt ]]; then
    options=(-DPLIMSOLL_TESTS=OFF -DPLIMSOLL_BENCH=OFF -DCMAKE_UNITY_BUILD=ON
      "-DPLIMSOLL_CUDA=${PLIMSOLL_CUDA:-$cuda}")
  elif [[ -n ${PLIMSOLL_CUDA:-} ]]; then
    options=("-DPLIMSOLL_CUDA=$PLIMSOLL_CUDA")
  fi
  configure release "${options[@]}"
}

step "install packages" "$repo_root/scripts/install_deps.sh" --build
step "configure build/release" configure_release
step "build" build release plimsoll-planner plimsoll-worker plimsoll
step "fetch the model" fetch
step "plan the model for a device of $device_memory" \
  "$bin/plimsoll" plan "$model" --device-memory "$device_memory"
step "start the planner" start_planner
step "start the worker" start_worker
step "wait for the model" wait_for_model
step "memory: planned beside allocated" \
  "$bin/plimsoll" memory --address "$worker_address"
say "    prompt: $prompt"
step "stream an answer" "$bin/plimsoll" generate --address "$worker_address" \
  --model smollm2 --prompt "$prompt" --max-tokens 64
printf '\n'
say "==> stop worker and planner"
stop "$worker_pid" plimsoll-worker && worker_pid=
stop "$planner_pid" plimsoll-planner && planner_pid=
say "Done in $SECONDS s. The binaries are in build/release/bin."
