// An engine's resources without a device or a model: what the objects that keep
// the books of slots need.
#ifndef PLIMSOLL_TESTS_WORKER_ENGINE_GIVEN_RESOURCES_H_
#define PLIMSOLL_TESTS_WORKER_ENGINE_GIVEN_RESOURCES_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "planner/layout/kv_cache_bytes.h"
#include "worker/engine/engine_resources.h"
#include "worker/engine/sequence.h"

namespace plimsoll::worker {

inline constexpr int64_t kGivenContext = 256;  // four pages of 64 tokens

// A model of one layer with full attention. All slots share `n_pages` pages.
inline EngineResources GivenResources(int64_t n_slots, int64_t n_pages) {
  EngineResources given;
  given.shape.n_layers = 1;
  given.shape.layers.push_back({.n_kv_heads = 1,
                                .head_dim = 16,
                                .ffn_dim = 32,
                                .window = 0,
                                .kv_source = 0});
  planner::MemoryPlan plan;
  plan.options.n_slots = n_slots;
  plan.n_ctx = kGivenContext;
  plan.n_rows = 64;
  const auto kv = planner::KvCacheBytes(
      given.shape, {.n_ctx = kGivenContext, .n_slots = n_slots});
  EXPECT_TRUE(kv.ok()) << kv.status();
  plan.kv = *kv;
  plan.kv.n_pages = n_pages;
  given.parts.push_back({.device = nullptr,
                         .first_layer = 0,
                         .n_layers = 1,
                         .plan = std::move(plan)});
  // Nobody reads or writes a key, so that the pages need no memory.
  given.cache = std::make_unique<KvCache>(
      given.shape, given.plan(),
      KvRegions{.pages = {nullptr, given.plan().kv.full_bytes}, .rings = {}},
      n_pages);
  given.parked = std::make_unique<ParkedContexts>(
      *given.cache, std::vector<ParkedContexts::Part>{}, /*n_places=*/0);
  return given;
}

struct GivenSequence {
  int64_t id = 1;
  int64_t n_prompt = 10;
  ContextPolicy policy = ContextPolicy::kStop;
  std::string tenant = {};
  int64_t max_tokens = 0;
};

// A sequence whose prompt is 0, 1, 2, ...; it has no sink.
inline std::unique_ptr<Sequence> MakeSequence(const EngineResources& given,
                                              const GivenSequence& wanted) {
  GenerateOptions options;
  options.roll.policy = wanted.policy;
  options.claim.tenant = wanted.tenant;
  options.max_tokens = wanted.max_tokens;
  const auto roll = PlanRoll(given.shape, given.plan(), options.roll);
  EXPECT_TRUE(roll.ok()) << roll.status();
  std::vector<int32_t> prompt(static_cast<size_t>(wanted.n_prompt));
  std::iota(prompt.begin(), prompt.end(), 0);
  SequenceStart start = {.roll = *roll,
                         .history = TokenHistory(roll->prefix_tokens)};
  start.history.Append(prompt);
  start.n_prompt = wanted.n_prompt;
  return std::make_unique<Sequence>(wanted.id,
                                    Arrival{.options = std::move(options),
                                            .sink = nullptr,
                                            .time = absl::UnixEpoch()},
                                    std::move(start));
}

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_TESTS_WORKER_ENGINE_GIVEN_RESOURCES_H_
