// The solved context is maximal, over many random models.
#include <gtest/gtest.h>

#include <random>

#include "planner/layout/auto_context.h"
#include "planner/layout/kv_cache_bytes.h"
#include "planner/layout/memory_plan.h"
#include "tests/planner/shapes.h"

namespace plimsoll::planner {
namespace {

// 100,000, in instrumented builds a tenth.
constexpr int kNumShapes = PLIMSOLL_DEFAULT_SHAPES;

PlanOptions RandomOptions(std::mt19937_64& random) {
  PlanOptions options;
  options.n_slots = LogUniform(random, 64);
  options.n_ubatch = LogUniform(random, 1'024);
  options.n_idle_sessions = static_cast<int64_t>(random() % 4);
  if (random() % 4 == 0) options.kv_tokens = LogUniform(random, 1 << 20);
  if (random() % 4 == 0) options.n_draft = LogUniform(random, 15);
  if (random() % 4 == 0) options.max_inference_len = LogUniform(random, 8'192);
  constexpr std::array<DType, 4> kTypes = {DType::kQ8_0, DType::kF16,
                                           DType::kF32, DType::kQ4_0};
  options.k_type = kTypes[random() % kTypes.size()];
  options.v_type = kTypes[random() % kTypes.size()];
  return options;
}

// Bytes for some idle sessions, with a rest, in place of their number.
PlanOptions WithIdleBytes(std::mt19937_64& random, const ModelShape& shape,
                          PlanOptions options) {
  const auto slot = KvCacheBytes(shape, {.n_ctx = shape.n_ctx_train,
                                         .k_type = options.k_type,
                                         .v_type = options.v_type});
  EXPECT_TRUE(slot.ok()) << slot.status();
  const int64_t place_bytes = slot.ok() ? slot->PlaceBytes() : 0;
  options.n_idle_sessions = 0;
  options.idle_session_bytes =
      place_bytes + LogUniform(random, 4 * place_bytes + 1);
  return options;
}

DeviceProfile RandomProfile(std::mt19937_64& random) {
  DeviceProfile profile = CommittedCpuProfile();
  constexpr std::array<AllocationRule, 3> kRules = {
      AllocationRule::kExact, AllocationRule::kGranularity,
      AllocationRule::kPow2};
  profile.allocation = kRules[random() % kRules.size()];
  return profile;
}

int64_t BytesOf(const ModelShape& shape, PlanOptions options,
                const DeviceProfile& profile, int64_t n_ctx) {
  options.n_ctx = n_ctx;
  options.max_inference_len.reset();
  const auto plan =
      Layout(shape, options, profile, std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? plan->total_bytes : -1;
}

TEST(PlanPropertyTest, TheSolvedContextIsMaximal) {
  std::mt19937_64 random(1);
  int n_solved = 0;
  for (int i = 0; i < kNumShapes; ++i) {
    const ModelShape shape = RandomShape(random);
    PlanOptions options = RandomOptions(random);
    if (random() % 4 == 0) options = WithIdleBytes(random, shape, options);
    const DeviceProfile profile = RandomProfile(random);
    const int64_t cap = std::min(shape.n_ctx_train,
                                 options.max_inference_len.value_or(1 << 30));
    const ContextGrid grid(cap, ContextStep::kPage);
    const int64_t least = BytesOf(shape, options, profile, grid.At(0));
    const int64_t most = BytesOf(shape, options, profile, cap);
    // Budgets from just too small to just too large.
    const int64_t budget =
        least - 2 +
        static_cast<int64_t>(random() %
                             static_cast<uint64_t>(most - least + 5));
    const auto plan = Layout(shape, options, profile, budget);
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_EQ(plan->n_ctx > 0, budget >= least) << i;
    ASSERT_EQ(plan->fits, plan->n_ctx > 0) << i;
    ASSERT_LE(plan->n_ctx, cap);
    if (plan->n_ctx == 0) continue;
    ASSERT_LE(plan->total_bytes, budget);
    ASSERT_EQ(plan->total_bytes, BytesOf(shape, options, profile, plan->n_ctx));
    if (plan->n_ctx == cap) continue;
    ++n_solved;
    const int64_t next = grid.Next(plan->n_ctx);
    ASSERT_GT(next, plan->n_ctx);
    ASSERT_GT(BytesOf(shape, options, profile, next), budget) << i;
  }
  EXPECT_GT(n_solved, kNumShapes / 4);
}

TEST(PlanPropertyTest, ContextsAreStrictlyIncreasingUpToTheCap) {
  for (int64_t cap = 1; cap <= 700; ++cap) {
    int64_t last = 0;
    const ContextGrid grid(cap, ContextStep::kPage);
    for (int64_t i = 0; i < grid.size(); ++i) {
      const int64_t n_ctx = grid.At(i);
      ASSERT_GT(n_ctx, last) << cap;
      if (i > 0) {
        ASSERT_EQ(grid.Next(last), n_ctx) << cap;
      }
      last = n_ctx;
    }
    ASSERT_EQ(last, cap);
  }
}

}  // namespace
}  // namespace plimsoll::planner
