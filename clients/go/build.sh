#!/usr/bin/env bash
# Builds the example in Go with Debian's packages, without a module proxy.
#
# Usage: clients/go/build.sh FOLDER   makes FOLDER/say
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1/src"
folder=$(cd "$1" && pwd)

mapped=
for name in common generation; do
  mapped+=,Mplimsoll/v1/$name.proto=plimsoll/v1
done
protoc -I"$here/../../proto" --go_out="${mapped#,}:$folder/src" \
  --go-grpc_out="${mapped#,}:$folder/src" \
  plimsoll/v1/common.proto plimsoll/v1/generation.proto
GO111MODULE=off GOPATH=$folder:/usr/share/gocode GOCACHE=$folder/cache \
  go build -o "$folder/say" "$here/say.go"
