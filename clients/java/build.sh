#!/usr/bin/env bash
# Builds the example in Java with Debian's packages.
#
# Usage: clients/java/build.sh FOLDER   makes FOLDER/say
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1/src" "$1/classes"
folder=$(cd "$1" && pwd)
googleapis=${PLIMSOLL_GOOGLEAPIS_DIR:-/usr/share/gocode/src/github.com/gogo/googleapis}

jars=(
  grpc-{api,context,core,netty,protobuf,protobuf-lite,stub} guava perfmark-api
  netty-{buffer,codec,codec-http,codec-http2,codec-socks,common,handler}
  netty-{handler-proxy,resolver,transport,transport-native-unix-common} protobuf
  geronimo-annotation-1.3-spec
)
path=$folder/classes
for jar in "${jars[@]}"; do path+=:/usr/share/java/$jar.jar; done

protoc -I"$here/../../proto" -I"$googleapis" --java_out="$folder/src" \
  --grpc-java_out="$folder/src" \
  --plugin=protoc-gen-grpc-java="$(command -v grpc_java_plugin)" \
  google/rpc/{status,error_details}.proto plimsoll/v1/{common,generation}.proto
find "$folder/src" -name '*.java' -print0 |
  xargs -0 javac -nowarn -d "$folder/classes" -cp "$path" "$here/Say.java"

printf '#!/bin/sh\nexec java -cp "%s" Say "$@"\n' "$path" >"$folder/say"
chmod +x "$folder/say"
