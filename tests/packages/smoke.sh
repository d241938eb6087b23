#!/usr/bin/env bash
# Whether installed programs work: called in a bare system, with them on the PATH.
#
# Usage: smoke.sh MODEL
#
# Plans the model, asks a server for its health and for text, and has a worker
# load the model with a planner's lease. Needs bash and coreutils alone.
set -euo pipefail

model=$1
logs=$(mktemp -d)
export XDG_STATE_HOME=$logs HOME=$logs
start_seconds=120

die() {
  printf 'error: %s\n' "$*" >&2
  tail -n 20 "$logs"/*.log >&2 2>/dev/null || true
  exit 1
}

# start NAME COMMAND...: sets `pid`, and `address` to where it listens.
start() {
  local name=$1 deadline=$((SECONDS + start_seconds))
  shift
  "$@" >"$logs/$name.log" 2>&1 &
  pid=$! address=
  while [[ -z $address ]]; do
    kill -0 "$pid" 2>/dev/null || die "$name ended before it was ready"
    ((SECONDS < deadline)) || die "$name was not ready in $start_seconds s"
    sleep 0.1
    address=$(sed -n 's,^listening on \(http://\)\?,,p' "$logs/$name.log")
  done
}

# stop PID: SIGTERM, after which a server ends with status 0.
stop() {
  kill -TERM "$1"
  wait "$1" || die "process $1 ended with status $?"
}

# http METHOD PATH [BODY]: the reply of the server at `address`.
http() {
  local body=${3:-}
  exec 3<>"/dev/tcp/${address%:*}/${address##*:}"
  printf '%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n' \
    "$1" "$2" "$address" >&3
  printf 'Content-Length: %d\r\nConnection: close\r\n\r\n%s' \
    "${#body}" "$body" >&3
  cat <&3
  exec 3>&-
}

# says WORDS TEXT: the text must have the words.
says() { [[ $2 == *"$1"* ]] || die "no \"$1\" in: $2"; }

says 'plimsoll ' "$(plimsoll version)"
says 'FITS' "$(plimsoll plan "$model" --device-memory 2GiB)"
# The catalogue of devices is found.
says 'FITS' "$(plimsoll plan "$model" --device rtx-4090)"
# libcurl is found: the error is that nobody listens there.
says 'http://127.0.0.1:1' "$(plimsoll pull http://127.0.0.1:1/m.gguf 2>&1 || true)"

start serve plimsoll serve "$model" --listen 127.0.0.1:0 --n-ctx 512
serve=$pid
says '200 OK' "$(http GET /health)"
says 'chat.completion' "$(http POST /v1/chat/completions \
  '{"max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]}')"
stop "$serve"

start planner plimsoll-planner --listen 127.0.0.1:0 \
  --journal "$logs/leases.db" --first
planner=$pid planner_address=$address
start worker plimsoll-worker --listen 127.0.0.1:0 --planner "$planner_address" \
  --model "small=$model" --n-ctx 512
worker=$pid
for ((i = 0; i < start_seconds * 10; ++i)); do
  models=$(plimsoll models --address "$address" -o json)
  [[ $models == *MODEL_STATE_READY* ]] && break
  sleep 0.1
done
says MODEL_STATE_READY "$models"
plimsoll generate --address "$address" --model small --prompt 'The sea is' \
  --max-tokens 4 >"$logs/text" || die "the worker generates nothing"
says small "$(plimsoll leases --address "$planner_address")"
stop "$worker"
stop "$planner"
rm -rf "$logs"
printf 'version, plan, serve, planner and worker: ok\n'
