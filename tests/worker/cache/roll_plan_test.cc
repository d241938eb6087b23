// When a rolling context is full, and what leaves it then.
#include "worker/cache/roll_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>

#include "planner/layout/kv_cache_bytes.h"

namespace plimsoll::worker {
namespace {

using ::testing::HasSubstr;

struct Case {
  int64_t n_ctx;
  int64_t window = 0;  // 0 = full attention only
  int64_t pin_tokens = 4;
  std::optional<int64_t> evict_to = std::nullopt;
  RollMethod method = RollMethod::kShift;
};

absl::StatusOr<RollPlan> Plan(const Case& c) {
  planner::ModelShape shape = {};
  shape.n_layers = 2;
  for (int64_t il = 0; il < 2; ++il) {
    shape.layers.push_back({.n_kv_heads = 1,
                            .head_dim = 16,
                            .ffn_dim = 32,
                            .window = il == 0 ? c.window : 0,
                            .kv_source = il});
  }
  planner::MemoryPlan plan = {};
  plan.n_ctx = c.n_ctx;
  const auto kv =
      planner::KvCacheBytes(shape, {.n_ctx = c.n_ctx, .n_slots = 1});
  EXPECT_TRUE(kv.ok()) << kv.status();
  plan.kv = *kv;
  RollOptions options;
  options.policy = ContextPolicy::kRoll;
  options.pin_tokens = c.pin_tokens;
  options.evict_to = c.evict_to;
  options.method = c.method;
  return PlanRoll(shape, plan, options);
}

TEST(RollPlanTest, OtherPoliciesNeverRoll) {
  RollOptions options;
  options.pin_tokens = -1;  // not looked at
  planner::MemoryPlan memory;
  memory.n_ctx = 100;
  const auto plan = PlanRoll({}, memory, options);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->prefix_tokens, 0);
  EXPECT_EQ(plan->capacity, 100);
  EXPECT_EQ(plan->FullAt(0), 100);
}

TEST(RollPlanTest, AContextIsFullWithItsPagesLessThePrefixesTail) {
  EXPECT_EQ(Plan({.n_ctx = 1024})->capacity, 4 + 15 * 64);
  EXPECT_EQ(Plan({.n_ctx = 1024, .pin_tokens = 0})->capacity, 1024);
  EXPECT_EQ(Plan({.n_ctx = 1024, .pin_tokens = 64})->capacity, 1024);
  EXPECT_EQ(Plan({.n_ctx = 1024, .pin_tokens = 65})->capacity, 65 + 14 * 64);
  // The last page is not all there.
  EXPECT_EQ(Plan({.n_ctx = 1000, .pin_tokens = 0})->capacity, 1000);
  EXPECT_EQ(Plan({.n_ctx = 1000, .pin_tokens = 60})->capacity, 1000);
  EXPECT_EQ(Plan({.n_ctx = 1000, .pin_tokens = 4})->capacity, 4 + 15 * 64);
}

TEST(RollPlanTest, AnEvictionLeavesThreeQuartersUnlessToldOtherwise) {
  // 1,024 full tokens less 4 pages are 768.
  EXPECT_EQ(Plan({.n_ctx = 1024, .pin_tokens = 0})->evict_tokens, 256);
  EXPECT_EQ(
      Plan({.n_ctx = 1024, .pin_tokens = 0, .evict_to = 769})->evict_tokens,
      256);
  EXPECT_EQ(
      Plan({.n_ctx = 1024, .pin_tokens = 0, .evict_to = 767})->evict_tokens,
      320);
  EXPECT_EQ(Plan({.n_ctx = 1024, .evict_to = 1024})->evict_tokens, 64)
      << "at least a page leaves";
  EXPECT_EQ(Plan({.n_ctx = 1024, .evict_to = 1})->evict_tokens, 14 * 64)
      << "at least a page stays";
}

TEST(RollPlanTest, RingsKeepTheirWindowWhereTheContextAllows) {
  const auto raised = Plan({.n_ctx = 1024, .window = 512, .evict_to = 100});
  EXPECT_EQ(raised->method, RollMethod::kShift);
  // 964 full, of which 4 + 512 + 64 and up to 63 more stay.
  EXPECT_EQ(raised->evict_tokens, 384);
  EXPECT_GE(raised->capacity - raised->evict_tokens - 4, 512);
  // 9 recent pages: one leaves, 512 tokens stay; with one page less 448 would.
  const auto last = Plan({.n_ctx = 640, .window = 512});
  EXPECT_EQ(last->method, RollMethod::kShift);
  EXPECT_EQ(last->evict_tokens, 64);
  const auto too_short = Plan({.n_ctx = 639 - 63, .window = 512});
  EXPECT_EQ(too_short->method, RollMethod::kRecompute);
  EXPECT_EQ(too_short->evict_tokens, 128) << "and evict_to is what it was";
}

TEST(RollPlanTest, AWindowAsLongAsTheContextHasPagesAndRollsLikeThem) {
  const auto plan = Plan({.n_ctx = 1024, .window = 1024, .evict_to = 100});
  EXPECT_EQ(plan->method, RollMethod::kShift);
  EXPECT_EQ(plan->evict_tokens, 14 * 64);
}

TEST(RollPlanTest, BothMethodsKeepTheSameTokens) {
  for (const int64_t n_ctx : {256, 300, 1024, 4096}) {
    for (const int64_t window : {0, 100, 512}) {
      const Case shift = {.n_ctx = n_ctx, .window = window};
      Case recompute = shift;
      recompute.method = RollMethod::kRecompute;
      EXPECT_EQ(Plan(shift)->capacity, Plan(recompute)->capacity);
      EXPECT_EQ(Plan(shift)->evict_tokens, Plan(recompute)->evict_tokens);
      EXPECT_EQ(Plan(recompute)->method, RollMethod::kRecompute);
    }
  }
}

TEST(RollPlanTest, EveryPlanKeepsItsPromises) {
  for (int64_t n_ctx = 65; n_ctx < 700; n_ctx += 7) {
    for (const int64_t pins : {0, 1, 4, 63, 64, 65, 200}) {
      for (const int64_t window : {0, 16, 100, 256}) {
        for (const int64_t evict_to : {int64_t{1}, n_ctx / 2, n_ctx}) {
          const auto plan = Plan({.n_ctx = n_ctx,
                                  .window = window,
                                  .pin_tokens = pins,
                                  .evict_to = evict_to});
          if (!plan.ok()) continue;
          SCOPED_TRACE(n_ctx);
          const int64_t kept = plan->capacity - plan->evict_tokens;
          ASSERT_LE(plan->capacity, n_ctx);
          ASSERT_GE(plan->capacity, n_ctx - 63);
          ASSERT_GT(plan->evict_tokens, 0);
          ASSERT_EQ(plan->evict_tokens % 64, 0);
          ASSERT_GT(kept, pins) << "something recent stays";
          if (plan->method == RollMethod::kShift &&
              planner::HasRing(window, n_ctx)) {
            ASSERT_GE(kept - pins, window);
          }
        }
      }
    }
  }
}

TEST(RollPlanTest, APrefixMustLeaveTwoPages) {
  EXPECT_TRUE(Plan({.n_ctx = 256, .pin_tokens = 128}).ok());
  const auto refused = Plan({.n_ctx = 256, .pin_tokens = 129}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  for (const char* part :
       {"pin_tokens", "129", "4 pages of 64", "256", "128"}) {
    EXPECT_THAT(std::string(refused.message()), HasSubstr(part));
  }
  EXPECT_TRUE(Plan({.n_ctx = 65, .pin_tokens = 0}).ok());
  EXPECT_FALSE(Plan({.n_ctx = 64, .pin_tokens = 0}).ok()) << "one page";
  EXPECT_FALSE(Plan({.n_ctx = 128, .pin_tokens = 1}).ok());
  EXPECT_TRUE(Plan({.n_ctx = 129, .pin_tokens = 1}).ok());
  EXPECT_FALSE(
      Plan({.n_ctx = 256, .pin_tokens = std::numeric_limits<int64_t>::max()})
          .ok());
  EXPECT_FALSE(Plan({.n_ctx = 256, .pin_tokens = -1}).ok());
  EXPECT_TRUE(Plan({.n_ctx = 256, .pin_tokens = 0}).ok());
}

TEST(RollPlanTest, EvictToIsCheckedAtItsLimits) {
  EXPECT_TRUE(Plan({.n_ctx = 256, .evict_to = 1}).ok());
  EXPECT_TRUE(Plan({.n_ctx = 256, .evict_to = 256}).ok());
  for (const int64_t evict_to : {0, -1, 257}) {
    const auto refused = Plan({.n_ctx = 256, .evict_to = evict_to}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("evict_to"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("256"));
  }
}

}  // namespace
}  // namespace plimsoll::worker
