// What an eviction costs, by the length of the context: deciding which whole
// turns leave, the page table and the list of tokens.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "planner/layout/kv_cache_bytes.h"
#include "planner/layout/memory_plan.h"
#include "planner/model/model_shape.h"
#include "worker/cache/kv_cache.h"
#include "worker/cache/roll_plan.h"
#include "worker/sampling/token_history.h"

namespace plimsoll::worker {
namespace {

constexpr int64_t kPinned = 20;
constexpr int64_t kTurnTokens = 60;

// Argument: n_ctx. A chat of short turns; the time is of evictions only.
void Evict(benchmark::State& state) {
  const int64_t n_ctx = state.range(0);
  planner::ModelShape shape = {};
  shape.n_layers = 2;
  for (int64_t il = 0; il < 2; ++il) {
    shape.layers.push_back({.n_kv_heads = 1,
                            .head_dim = 16,
                            .ffn_dim = 32,
                            .window = il == 0 ? 0 : 128,
                            .kv_source = il});
  }
  planner::MemoryPlan plan = {};
  plan.n_ctx = n_ctx;
  plan.options.n_slots = 1;
  plan.options.k_type = DType::kF16;
  plan.options.v_type = DType::kF16;
  plan.kv = *planner::KvCacheBytes(shape, {.n_ctx = n_ctx, .n_slots = 1});
  std::vector<std::byte> pages(static_cast<size_t>(plan.kv.full_bytes));
  std::vector<std::byte> rings(static_cast<size_t>(plan.kv.window_bytes));
  KvCache cache(shape, plan,
                {.pages = {pages.data(), plan.kv.full_bytes},
                 .rings = {rings.data(), plan.kv.window_bytes}});
  RollOptions options;
  options.policy = ContextPolicy::kRoll;
  options.pin_tokens = kPinned;
  const RollPlan roll = *PlanRoll(shape, plan, options);
  TokenHistory history(kPinned);
  cache.Begin(0, kPinned);
  int64_t until_turn = kPinned;
  std::vector<int64_t> turns;
  for (auto _ : state) {
    const int64_t full = roll.FullAt(history.evicted_positions());
    while (history.n_positions() <= full) {
      if (until_turn-- == 0) {
        history.BeginTurn();
        until_turn = kTurnTokens - 1;
      }
      history.Append(7);
    }
    if (!cache.Extend(0, full).ok()) return state.SkipWithError("no page left");
    const auto begin = std::chrono::steady_clock::now();
    history.WholeTurns(turns);
    const EvictionPlan leaving = PlanEviction(roll, cache.Live(0), turns);
    history.Evict(leaving.n_tokens);
    cache.Evict(0, leaving.n_tokens);
    const auto end = std::chrono::steady_clock::now();
    state.SetIterationTime(std::chrono::duration<double>(end - begin).count());
  }
}
BENCHMARK(Evict)
    ->RangeMultiplier(2)
    ->Range(512, 8'192)
    ->UseManualTime()
    ->Iterations(2'000)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace plimsoll::worker

BENCHMARK_MAIN();
