#!/usr/bin/env bash
# Builds everything in build/release and runs the whole test suite.
#
# Usage: scripts/test.sh [CTEST ARGUMENT...]
#
# Installs missing packages (sudo only if you are not root) and fetches the two
# test models (350 MB); without a network the tests that need them are skipped,
# and that is said. Ends with ctest's own closing line. In its environment:
#   PLIMSOLL_UNITY=ON|OFF   compile many files at a time or each by itself. ON
#     takes half the time from nothing, and more time after a small change. The
#     default is ON for a new build folder; one that is there stays as it is.
#   PLIMSOLL_LONG_TESTS=ON  run simulations and random mixes in full.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

fetch_models() {
  local model status
  for model in smollm2 gemma3-270m; do
    status=0
    "$repo_root/scripts/fetch_model.sh" "$model" || status=$?
    ((status == 0 || status == 75)) || return "$status"
    ((status == 0)) ||
      say "WARNING: no $model; the tests that need it will be SKIPPED"
  done
}

# The end-to-end tests are a ctest test of their own where their Python
# environment exists.
make_e2e_venv() {
  local requirements
  mapfile -t requirements < <(pinned "$repo_root/tests/e2e/requirements.txt")
  if ! (venv "$e2e_venv" "${requirements[@]}"); then
    rm -rf "$e2e_venv"
    say "WARNING: no Python environment; the e2e tests will be SKIPPED"
  fi
}

step "install packages" "$repo_root/scripts/install_deps.sh" --build --test
step "fetch the models" fetch_models
step "Python environment of the e2e tests" make_e2e_venv
step "configure build/release" configure_tests
step "build" build release
say "==> test"
cd "$repo_root"
exec ctest --test-dir build/release --output-on-failure -j2 "$@"
