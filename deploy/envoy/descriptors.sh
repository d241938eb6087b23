#!/bin/sh
# Writes the descriptors that Envoy's transcoder reads to the file that is named:
# our services, and the details of errors, which are JSON only if Envoy knows
# their types.
#
# usage: deploy/envoy/descriptors.sh FILE
# Needs protoc, and google/rpc of golang-github-gogo-googleapis-dev.
set -eu
if [ $# -ne 1 ]; then
  echo "usage: $0 FILE" >&2
  exit 2
fi
out=$(realpath "$1")
cd "$(dirname "$0")/../../proto"
exec protoc --include_imports --descriptor_set_out="$out" \
  -I. -I"${GOOGLEAPIS:-/usr/share/gocode/src/github.com/gogo/googleapis}" \
  plimsoll/v1/*.proto google/rpc/error_details.proto google/rpc/status.proto
