#!/usr/bin/env bash
# Shows on one device that leases hold what they say: two workers load a model
# under a planner, stream at once, one of them is killed, and a third gets its
# bytes. Builds nothing, and needs no network.
#
# Usage: scripts/gpu_leases.sh [OPTION...] MODEL.gguf
#
#   --device cuda:N|cpu   where the workers run (cuda:0); cpu tries the script
#                         where there is no GPU
#   --bin FOLDER          the folder of the programs (bin beside this script, or
#                         build/release/bin)
#   --logs FOLDER         keep what the programs say there
#   --first-memory BYTES  the budget of the worker that is killed (60 % of what
#                         is free, so that a second one of its size has no room;
#                         on a CPU 1 GiB)
#   --tokens N            tokens of each stream (512)
#
# The last lines printed are a table, with PASS, FAIL or SKIP and a figure a
# line. Exits with 77 if there is no device, 1 if anything failed.
set -euo pipefail

device=cuda:0
bin=
logs=
first_memory=
tokens=512
model=

mib=$((1 << 20))
gib=$((1 << 30))
freed_ms=1000  # a killed worker's bytes are wanted back within this
retry_ms=1000  # a load that waits asks the planner this often
start_seconds=120
gone_seconds=30

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
state=$(mktemp -d)
names=()           # the programs that were started, in order
declare -A pids=() # those that run
declare -A address=()
declare -A plan=() # bytes of a worker's plan
declare -A used=() # bytes that it took of the device
table=()
failed=0

say() { printf '\n==> %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

usage() {
  printf 'error: %s\nusage: gpu_leases.sh [--device cuda:N|cpu] [--bin FOLDER]%s\n' \
    "$*" ' [--logs FOLDER] [--first-memory BYTES] [--tokens N] MODEL.gguf' >&2
  exit 1
}

# row RESULT WHAT FIGURE: a line of the table.
row() {
  table+=("$(printf '%-4s  %-56s %s' "$1" "$2" "$3")")
  if [[ $1 == FAIL ]]; then failed=1; fi
}

# check CONDITION WHAT FIGURE: PASS if the arithmetic condition holds.
check() { if (($1)); then row PASS "$2" "$3"; else row FAIL "$2" "$3"; fi; }

# Nothing that was started outlives the script, however it ends.
cleanup() {
  local status=$? name deadline=$((SECONDS + 5))
  trap - EXIT
  trap '' INT TERM
  for name in "${!pids[@]}"; do kill -TERM "${pids[$name]}" 2>/dev/null || true; done
  for name in "${!pids[@]}"; do
    while kill -0 "${pids[$name]}" 2>/dev/null && ((SECONDS < deadline)); do
      sleep 0.1
    done
    kill -KILL "${pids[$name]}" 2>/dev/null || true
  done
  if ((status != 0 && status != 77)); then
    for name in "${names[@]}"; do
      printf '\n--- %s\n' "$name"
      tail -n 15 "$logs/$name.log" || true
    done >&2
  fi
  if ((${#table[@]})); then
    echo
    printf '%s\n' "${table[@]}"
  fi
  rm -rf "$state"
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# It stays in this process group, so that who ends the script ends it too.
plimsoll() { timeout --foreground 120 "$bin/plimsoll" "$@"; }

# now_ms: sets `now` to the time in milliseconds since 1970.
now_ms() {
  now=${EPOCHREALTIME/[.,]/}
  now=${now%???}
}

# number JSON NAME: prints the first number of that name; 0 if there is none.
number() {
  if [[ $1 =~ \"$2\":\ *\"?([0-9]+) ]]; then
    printf '%s\n' "${BASH_REMATCH[1]}"
  else
    echo 0
  fi
}

# in_mib BYTES: prints them in MiB with one digit after the point.
in_mib() {
  local tenths=$(($1 * 10 / mib)) sign=
  if ((tenths < 0)); then
    sign=-
    tenths=$((-tenths))
  fi
  printf '%s%d.%d MiB' "$sign" $((tenths / 10)) $((tenths % 10))
}

# smi FIELD: prints a number of bytes that the driver says of the device.
smi() {
  local text
  text=$(nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits -i "${device#cuda:}")
  echo $((${text//[!0-9]/} * mib))
}

# device_used: prints the bytes of the device that are used; 0 for a CPU, whose
# workers are looked at one by one.
device_used() { if [[ $device == cpu ]]; then echo 0; else smi memory.used; fi; }

free_bytes() {
  if [[ $device != cpu ]]; then
    smi memory.free
  else
    echo $(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo) * 1024))
  fi
}

# resident_peak PID: prints the most bytes that a process had in memory.
resident_peak() {
  echo $(($(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$1/status") * 1024))
}

# alive NAME: ends the script if the program has ended.
alive() {
  kill -0 "${pids[$1]}" 2>/dev/null || die "$1 ended"
}

# start NAME PROGRAM FLAG...: starts it, and waits until it listens.
start() {
  local name=$1 program=$2 deadline=$((SECONDS + start_seconds))
  shift 2
  names+=("$name")
  : >"$logs/$name.out" # it is read before the program has made it
  XDG_STATE_HOME=$state "$bin/$program" --listen 127.0.0.1:0 "$@" \
    >"$logs/$name.out" 2>"$logs/$name.log" &
  pids[$name]=$!
  address[$name]=
  while [[ -z ${address[$name]} ]]; do
    address[$name]=$(sed -n 's/^listening on //p' "$logs/$name.out")
    [[ -n ${address[$name]} ]] && break
    alive "$name"
    ((SECONDS < deadline)) || die "$name did not listen within $start_seconds s"
    sleep 0.05
  done
}

# start_worker NAME FLAG...: starts a worker; its model has the same name.
start_worker() {
  local name=$1
  shift
  start "$name" plimsoll-worker --planner "${address[planner]}" --device "$device" \
    --model "$name=$model" --parked-slots 0 --log-requests "$@"
}

# await_ready NAME: waits for the worker's model, and sets `plan`.
await_ready() {
  local name=$1 deadline=$((SECONDS + start_seconds)) models
  while true; do
    alive "$name"
    models=$(plimsoll models --address "${address[$name]}" -o json)
    [[ $models == *MODEL_STATE_READY* ]] && break
    [[ $models == *MODEL_STATE_ABSENT* ]] && die "$name did not load its model"
    ((SECONDS < deadline)) || die "$name had no model after $start_seconds s"
    sleep 0.1
  done
  plan[$name]=$(number "$models" total_bytes)
  n_ctx=$(number "$models" n_ctx)
  n_slots=$(number "$models" n_slots)
  printf '%s: a plan of %s bytes, %s slots of %s tokens\n' "$name" "${plan[$name]}" \
    "$n_slots" "$n_ctx"
}

# load NAME FLAG...: starts a worker, waits for its model, and sets `used`.
load() {
  local name=$1 before
  before=$(device_used)
  start_worker "$@"
  await_ready "$name"
  if [[ $device == cpu ]]; then
    used[$name]=$(resident_peak "${pids[$name]}")
  else
    used[$name]=$(($(device_used) - before))
  fi
}

# compare WHAT PLAN USED: a plan is never below what is used, and above it by at
# most 1 % and 32 MiB. On a CPU, where most of the process is no arena, the
# promise is 5 % and 16 MiB.
compare() {
  local over=$(($2 - $3)) limit=$(($3 / 100 + 32 * mib))
  if [[ $device == cpu ]]; then limit=$(($3 / 20 + 16 * mib)); fi
  check "over >= 0 && over <= limit" "$1" \
    "$(in_mib "$2") planned, $(in_mib "$3") used: $(in_mib "$over") over, at most $(in_mib "$limit")"
}

# compare_worker NAME: its plan beside what it took. Memory for messages, which
# a CPU's plan has, is taken only while there are messages.
compare_worker() {
  local bytes=${plan[$1]} memory
  if [[ $device == cpu ]]; then
    memory=$(plimsoll memory --address "${address[$1]}" -o json)
    [[ $memory != *'"name": "messages"'* ]] ||
      bytes=$((bytes - $(number "${memory#*\"name\": \"messages\"}" bytes)))
  fi
  compare "$1 worker: the plan covers what it took" "$bytes" "${used[$1]}"
}

# lease NAME FIELD: prints a number of the lease for that worker's model.
lease() {
  local leases
  leases=$(plimsoll leases --planner "${address[planner]}" -o json)
  [[ $leases == *"\"purpose\": \"$1\""* ]] || {
    echo 0
    return
  }
  leases=${leases#*"\"purpose\": \"$1\""}
  number "${leases%%\}*}" "$2"
}

available() {
  number "$(plimsoll devices --planner "${address[planner]}" -o json)" available_bytes
}

# show: what planner and driver say now.
show() {
  plimsoll devices --planner "${address[planner]}"
  plimsoll leases --planner "${address[planner]}"
  [[ $device != cpu ]] || return 0
  nvidia-smi --query-gpu=memory.total,memory.used,memory.free --format=csv \
    -i "${device#cuda:}"
  nvidia-smi --query-compute-apps=pid,used_memory --format=csv || true
}

# generate NAME TOKENS FILE: streams them from the worker into the file.
generate() {
  plimsoll generate --address "${address[$1]}" --model "$1" --raw \
    --prompt 'A line on the hull of a ship' --max-tokens "$2" --ignore-eos \
    --temperature 0 -o json >"$3"
}

# answers NAME: checks that the worker answers now.
answers() {
  local n=0
  if generate "$1" 16 "$state/$1.json"; then
    n=$(number "$(<"$state/$1.json")" generated_tokens)
  fi
  check "n > 0" "$1 worker: $2" "$n tokens"
}

# decode_span NAME: sets `from` and `to`, in milliseconds since 1970, to the time
# in which the worker's last request got its tokens.
decode_span() {
  local line
  line=$(grep 'a request has ended' "$logs/$1.log" | tail -n 1)
  to=$(date -d "${line%% *}" +%s%3N)
  [[ $line =~ decode_ms=([0-9]+) ]]
  from=$((to - BASH_REMATCH[1]))
}

# stream_at_once: both workers stream, and their streams overlap in time.
stream_at_once() {
  local name n begin=0 end='' streams=()
  for name in first second; do
    generate "$name" "$tokens" "$state/$name.json" &
    streams+=($!)
  done
  for n in "${streams[@]}"; do wait "$n" || true; done
  for name in first second; do
    n=$(number "$(<"$state/$name.json")" generated_tokens)
    check "n > 0" "$name worker: streams" "$n tokens"
    ((n > 0)) || return 0
    decode_span "$name"
    if ((from > begin)); then begin=$from; fi
    if [[ -z $end ]] || ((to < end)); then end=$to; fi
  done
  check "end - begin > 0" 'both stream at once' "for $((end - begin)) ms"
}

# ask_for BYTES: makes `fits` ask the planner for a plan of that many bytes.
ask_for() {
  local small
  question=("$model" --planner "${address[planner]}" --device "$device_id" --n-ctx 64
    -o json)
  small=$(plimsoll plan "${question[@]}" --weight-bytes "$mib") || true
  question+=(--weight-bytes $(($1 - $(number "$small" total_bytes) + mib)))
}

# fits: whether the planner could grant those bytes now.
fits() {
  local status=0
  plimsoll plan "${question[@]}" >/dev/null 2>&1 || status=$?
  ((status == 0 || status == 3)) || die "plimsoll plan ended with status $status"
  return "$status"
}

# granted NAME: sets `at` to the time at which the worker got a lease; fails if
# it has none.
granted() {
  local line
  line=$(grep -m 1 'a lease is granted' "$logs/$1.log") || return 1
  at=$(date -d "${line%% *}" +%s%3N)
}

# start_third: starts a worker that has room only without the first one.
start_third() {
  local deadline=$((SECONDS + start_seconds))
  start_worker third --n-ctx "$first_ctx" --slots "$first_slots"
  until grep -q 'a load waits' "$logs/third.log"; do
    alive third
    granted third && die 'the third worker got a lease beside the first one'
    ((SECONDS < deadline)) || die 'the third worker did not ask for a lease'
    sleep 0.1
  done
  grep -m 1 'a load waits' "$logs/third.log"
}

# kill_first: kills the first worker, and sets `killed` and `freed`, the
# milliseconds until the planner grants its bytes again.
kill_first() {
  local pid=${pids[first]}
  disown "$pid"
  now_ms
  killed=$now
  kill -KILL "$pid"
  unset 'pids[first]'
  freed=
  while [[ -z $freed ]]; do
    if fits; then
      now_ms
      freed=$((now - killed))
    elif granted third 2>/dev/null; then
      # It has taken the bytes before a plan could be asked for.
      freed=$((at - killed))
    fi
    now_ms
    ((now - killed < gone_seconds * 1000)) || break
  done
  check "${freed:-freed_ms + 1} <= freed_ms" 'SIGKILL: its bytes can be granted again' \
    "after ${freed:-more than ${gone_seconds}000} ms, at most $freed_ms"
}

# finish_third: the third worker gets the bytes, and uses them.
finish_third() {
  local deadline=$((SECONDS + gone_seconds)) limit=$((freed_ms + retry_ms))
  until granted third; do
    alive third
    ((SECONDS < deadline)) || break
    sleep 0.05
  done
  granted third || at=$((killed + gone_seconds * 1000))
  check "at - killed <= limit" 'the third worker, which waited, has its lease' \
    "after $((at - killed)) ms, at most $limit: it asks once a second"
  await_ready third
  if [[ $device == cpu ]]; then
    used[third]=$(resident_peak "${pids[third]}")
  else
    used[third]=$(($(device_used) - base - used[second]))
  fi
  show
  compare_worker third
  answers third 'answers with the bytes of the killed one'
}

# stop_all: ends what runs, in order, and looks at what is left.
stop_all() {
  local name status statuses='' left deadline
  for name in second third planner; do
    [[ -n ${pids[$name]:-} ]] || continue
    if [[ $name == planner ]]; then
      left=$(plimsoll leases --planner "${address[planner]}" -o json)
    fi
    status=0
    kill -TERM "${pids[$name]}"
    wait "${pids[$name]}" || status=$?
    unset "pids[$name]"
    statuses+=" $name $status"
  done
  check "$([[ ${statuses//[!0-9]/} =~ ^0+$ ]] && echo 1 || echo 0)" \
    'SIGTERM ends the others' "exit codes:$statuses"
  check "$([[ $left == *\"purpose\"* ]] && echo 0 || echo 1)" \
    'no lease is left' 'after both workers ended'
  [[ $device != cpu ]] || return 0
  deadline=$((SECONDS + 5))
  while left=$(($(device_used) - base)) && ((left > 32 * mib && SECONDS < deadline)); do
    sleep 0.2
  done
  check "left <= 32 * mib" 'the device has its memory back' \
    "$(in_mib "$left") more than at the start"
}

# slots_for BUDGET: prints with how many slots the model can fill the budget: the
# planner then finds the context that does.
slots_for() {
  local slots=1 bytes
  while ((slots < 4096)); do
    bytes=$(number "$(plimsoll plan "$model" --device-memory "$1" --slots "$slots" \
      -o json)" total_bytes)
    ((bytes < $1 * 97 / 100)) || break
    slots=$((slots * 2))
  done
  echo "$slots"
}

# parse FLAG...: reads the command line.
parse() {
  local name
  while (($#)); do
    case $1 in
      --device | --bin | --logs | --first-memory | --tokens)
        (($# > 1)) || usage "$1 needs a value"
        name=${1#--}
        printf -v "${name//-/_}" '%s' "$2"
        shift 2
        ;;
      -*) usage "$1 is no option" ;;
      *)
        [[ -z $model ]] || usage 'there is more than one model'
        model=$1
        shift
        ;;
    esac
  done
  [[ $device == cpu || $device =~ ^cuda:[0-9]+$ ]] || usage '--device is cpu or cuda:N'
  [[ $tokens =~ ^[1-9][0-9]*$ ]] || usage '--tokens is a number'
  [[ $first_memory =~ ^[0-9]*$ ]] || usage '--first-memory is a number of bytes'
  [[ -f $model ]] || usage "there is no model ${model:-given}"
}

# prepare: finds the device and the programs.
prepare() {
  local program
  if [[ $device != cpu ]] && ! nvidia-smi -i "${device#cuda:}"; then
    echo 'SKIPPED: there is no device' >&2
    exit 77
  fi
  if [[ -z $bin ]]; then
    bin=$here/bin
    [[ -d $bin ]] || bin=$here/../build/release/bin
  fi
  for program in plimsoll plimsoll-planner plimsoll-worker; do
    [[ -x $bin/$program ]] || die "there is no $program in $bin"
  done
  if [[ -d $bin/../lib ]]; then
    export LD_LIBRARY_PATH=$bin/../lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  fi
  logs=${logs:-$state}
  mkdir -p "$logs"
  if [[ -z $first_memory ]]; then
    first_memory=$gib
    [[ $device == cpu ]] || first_memory=$(($(free_bytes) * 6 / 10))
  fi
  base=$(device_used)
}

# load_both: two workers have their leases.
load_both() {
  local name bytes pid
  say "a planner, and a worker on $device with at most $first_memory bytes"
  # Journal and state are new, so no earlier planner's leases are held.
  start planner plimsoll-planner --journal "$state/leases.db" --first
  load first --device-memory "$first_memory" --slots "$(slots_for "$first_memory")"
  first_ctx=$n_ctx
  first_slots=$n_slots
  say 'a second worker'
  load second --n-ctx 4096 --slots 1
  device_id=$(plimsoll devices --planner "${address[planner]}" -o json |
    sed -n 's/^ *"id": "\(.*\)",*$/\1/p')
  show
  for name in first second; do
    compare_worker "$name"
    bytes=$(lease "$name" bytes)
    check "bytes == plan[$name]" "$name worker: its lease is its plan" \
      "$bytes bytes, ${plan[$name]} planned"
    pid=$(lease "$name" watched_pid)
    check "pid == pids[$name]" "$name worker: the planner watches its process" \
      "pid $pid, it has ${pids[$name]}"
  done
}

main() {
  local rest wanted third=0
  parse "$@"
  prepare
  load_both

  say "both stream $tokens tokens"
  stream_at_once
  if [[ $device != cpu ]]; then
    compare 'both, after the streams' $((plan[first] + plan[second])) \
      $(($(device_used) - base))
  fi

  rest=$(available)
  if ((plan[first] > rest + 64 * mib)); then
    third=1
    say "a third worker, which needs ${plan[first]} bytes: $rest are left"
    start_third
    rest=$(available)
  else
    row SKIP 'a third worker has room only without the first' \
      "$(in_mib "$rest") are left for $(in_mib "${plan[first]}")"
  fi

  say 'the first worker is killed'
  # What lies halfway fits without the first worker and not beside it.
  wanted=$((rest + $(lease first measured_bytes) / 2))
  ask_for "$wanted"
  if fits; then die "the planner grants $wanted bytes beside the first worker"; fi
  echo "$wanted bytes do not fit: $rest are left"
  kill_first
  show
  if ((third)); then finish_third; fi
  answers second 'answers after the kill'

  say 'the end'
  stop_all
  return "$failed"
}

main "$@"
