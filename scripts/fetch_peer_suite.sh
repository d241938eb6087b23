#!/usr/bin/env bash
# Fetches the tests that llama.cpp has of its server, from the sources of
# llama-cpp-python, for tests/e2e/peer, and prints the folder that they are in.
#
# Usage: scripts/fetch_peer_suite.sh
#
# The package has 77 MB, of which the tests are kept: half a megabyte.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

fetch_part_of_peer "$cache_dir/peer_suite" 6 \
  '*/vendor/llama.cpp/tools/server/tests/*'
