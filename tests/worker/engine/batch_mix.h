// Streams beside others that come and go at random.
#ifndef PLIMSOLL_TESTS_WORKER_ENGINE_BATCH_MIX_H_
#define PLIMSOLL_TESTS_WORKER_ENGINE_BATCH_MIX_H_

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "absl/functional/function_ref.h"
#include "tests/worker/engine/engine_harness.h"
#include "worker/engine/engine.h"

namespace plimsoll::testing {

// Requests for a context of 320 tokens and any random model: short and long
// prompts, many of which begin alike; greedy and drawn; some of them roll.
std::vector<worker::GenerateOptions> MixedRequests();

// What each request gives while nobody else is there.
std::vector<Generated> EachAlone(
    worker::Engine& engine,
    const std::vector<worker::GenerateOptions>& requests);

// Expects of `n_mixes` random choices of 2 to 5 of the requests, which begin
// while the others run, that each gives the bits that it gave `alone`. Some of
// them guess tokens, where the engine was loaded for that; some are left before
// their end.
void ExpectMixesChangeNothing(
    worker::Engine& engine,
    const std::vector<worker::GenerateOptions>& requests,
    const std::vector<Generated>& alone, int n_mixes, uint32_t seed);

// What engines did besides computing.
struct MixedWork {
  int64_t n_cached = 0;   // tokens that were found in the cache
  int64_t n_guessed = 0;  // tokens that were guessed
};

// Expects that of an engine for each number of rows of a step in `ubatches`.
// `load` returns an engine with the setup, or null if there is none.
MixedWork ExpectMixesInChunksChangeNothing(
    EngineSetup setup, std::initializer_list<int64_t> ubatches,
    absl::FunctionRef<worker::Engine*(const EngineSetup&)> load,
    const std::vector<worker::GenerateOptions>& requests,
    const std::vector<Generated>& alone, int n_mixes);

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_ENGINE_BATCH_MIX_H_
