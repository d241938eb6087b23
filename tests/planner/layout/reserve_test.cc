// Reserve-first policies: pinned numbers of known models on known devices.
#include "planner/layout/reserve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "planner/layout/memory_plan.h"
#include "tests/planner/known_models.h"
#include "tests/planner/shapes.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kDesktopCard = 12'878'086'144;

TEST(ReserveTest, DenseIsAThirdOrTwoGibibytes) {
  EXPECT_EQ(DenseReserve(0), 2 * kGiB);
  EXPECT_EQ(DenseReserve(6 * kGiB), 2 * kGiB);
  EXPECT_EQ(DenseReserve(6 * kGiB + 3), 2 * kGiB + 1);
  EXPECT_EQ(DenseReserve(kDesktopCard), kDesktopCard / 3);
}

TEST(ReserveTest, AModelWithoutWindowsOrHeadDimsOfItsOwnIsDense) {
  const ModelShape all_global =
      ShapeWith(Gemma4Numbers().Int("attention.sliding_window", 0),
                DType::kQ4_0, DType::kQ6_K, true);
  for (const int64_t total : {kGiB, kDesktopCard, 48 * kGiB}) {
    EXPECT_EQ(*WindowedReserve(Qwen3(), total), DenseReserve(total));
    EXPECT_EQ(*WindowedReserve(Gemma270m(), total), DenseReserve(total));
    EXPECT_EQ(*WindowedReserve(all_global, total), DenseReserve(total));
  }
}

TEST(ReserveTest, WindowedCountsFourThousandTokensOfActivations) {
  EXPECT_EQ(*FloatsPerToken(Gemma4()), 66'816);
  EXPECT_EQ(*WindowedReserve(Gemma4(), kDesktopCard), 3'092 * kMiB);
  EXPECT_EQ(*WindowedReserve(Gemma4(), 48 * kGiB), 8 * kGiB + 1'044 * kMiB);
  EXPECT_EQ(*WindowedReserve(Gemma4(), 6 * kGiB), 2 * kGiB);  // dense is less
}

TEST(ReserveTest, PerLayerEmbeddingsAreCountedWhereThereAreSome) {
  const ModelShape shape =
      ShapeWith(Gemma4Numbers().Int("embedding_length_per_layer_input", 256),
                DType::kQ4_0, DType::kQ6_K, true);
  EXPECT_EQ(*WindowedReserve(shape, kDesktopCard), 3'540 * kMiB);
}

TEST(ReserveTest, ScratchIsOneTokensBuffersAndLogits) {
  EXPECT_EQ(*TokenScratchBytes(Gemma4()), (66'816 + 262'144) * 4);
}

TEST(ReserveTest, WhatDoesNotFitIsReported) {
  ModelShape shape = Gemma4();
  shape.model_dim = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(absl::IsOutOfRange(FloatsPerToken(shape).status()));
  EXPECT_TRUE(absl::IsOutOfRange(TokenScratchBytes(shape).status()));
  EXPECT_TRUE(absl::IsOutOfRange(WindowedReserve(shape, kGiB).status()));
}

struct SeedCase {
  ReservePolicy policy;
  AllocationRule allocation;
  RingRule ring;
  int64_t ring_tokens;
  int64_t n_ctx;
};

MemoryPlan ReservedPlanOf(const ModelShape& shape, const PlanOptions& options) {
  auto plan = Layout(shape, options, CommittedCpuProfile(), kDesktopCard);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : MemoryPlan{};
}

TEST(ReservePolicyTest, ReproducesTheContextsOfGemma4OnADesktopCard) {
  const ModelShape shape = Gemma4();
  int64_t weight_bytes = 0;
  for (const auto& tensor : shape.weights) weight_bytes += tensor.file_bytes;
  EXPECT_EQ(weight_bytes, 6'960'054'464);
  for (const SeedCase& seed :
       {SeedCase{ReservePolicy::kDense, AllocationRule::kPow2,
                 RingRule::kWindowPlusTokens, 4'096, 30'840},
        SeedCase{ReservePolicy::kWindowed, AllocationRule::kPow2,
                 RingRule::kWindowPlusTokens, 4'096, 123'361},
        SeedCase{ReservePolicy::kWindowed, AllocationRule::kExact,
                 RingRule::kWindowPlusTokens, 4'096, 204'874},
        SeedCase{ReservePolicy::kWindowed, AllocationRule::kExact,
                 RingRule::kWindowPlusUbatch, 0, 262'144},
        SeedCase{ReservePolicy::kDense, AllocationRule::kExact,
                 RingRule::kWindowPlusUbatch, 0, 155'648},
        SeedCase{ReservePolicy::kDense, AllocationRule::kExact, RingRule::kFull,
                 0, 8'884},
        SeedCase{ReservePolicy::kWindowed, AllocationRule::kExact,
                 RingRule::kFull, 0, 14'632},
        SeedCase{ReservePolicy::kDense, AllocationRule::kExact,
                 RingRule::kExact, 0, 166'103},
        SeedCase{ReservePolicy::kWindowed, AllocationRule::kExact,
                 RingRule::kExact, 0, 262'144}}) {
    PlanOptions options;
    options.engine.policy = seed.policy;
    options.engine.allocation = AllocationChoice{seed.allocation, 0};
    options.engine.ring = seed.ring;
    options.engine.ring_tokens = seed.ring_tokens;
    options.k_type = options.v_type = DType::kQ8_0;
    const MemoryPlan plan = ReservedPlanOf(shape, options);
    EXPECT_EQ(plan.n_ctx, seed.n_ctx);
    EXPECT_TRUE(plan.fits);
    EXPECT_EQ(plan.reserve_bytes, plan.FindRegion("reserve")->bytes);
    EXPECT_GE(plan.reserve_bytes, 2 * kGiB);
  }
}

TEST(ReservePolicyTest, TheExactPolicyGivesGemma4ItsWholeContext) {
  PlanOptions options;
  options.k_type = options.v_type = DType::kQ8_0;
  const MemoryPlan plan = ReservedPlanOf(Gemma4(), options);
  EXPECT_EQ(plan.n_ctx, 262'144);
  EXPECT_EQ(plan.reserve_bytes, 0);
  EXPECT_EQ(plan.kv.full_bytes + plan.kv.window_bytes, 2'346 * kMiB);
}

TEST(ReservePolicyTest, ReproducesTheContextOfQwen3WithGivenWeights) {
  PlanOptions options;
  options.engine.policy = ReservePolicy::kDense;
  options.engine.allocation = AllocationChoice{AllocationRule::kExact, 0};
  options.k_type = options.v_type = DType::kF32;
  options.engine.weight_bytes = 5'021'827'072;
  const MemoryPlan plan = ReservedPlanOf(Qwen3(), options);
  EXPECT_EQ(plan.n_ctx, 12'080);
  EXPECT_EQ(plan.FindRegion("weights")->bytes, 5'021'827'072);
  EXPECT_EQ(plan.FindRegion("weights")->formula, "as given");
}

TEST(ReservePolicyTest, RegionsSumAndThereIsNoArena) {
  PlanOptions options;
  options.engine.policy = ReservePolicy::kWindowed;
  options.n_ctx = 4'096;
  const MemoryPlan plan = ReservedPlanOf(Gemma4(), options);
  std::vector<std::string> names;
  int64_t sum = 0;
  for (const Region& region : plan.regions) {
    names.emplace_back(region.name);
    sum += region.bytes;
    EXPECT_EQ(region.offset, -1);
    EXPECT_FALSE(region.formula.empty());
  }
  EXPECT_THAT(names, ElementsAre("weights", "kv_full", "kv_window", "scratch",
                                 "reserve"));
  EXPECT_EQ(sum, plan.total_bytes);
  EXPECT_EQ(plan.arena_bytes, 0);
}

TEST(ReservePolicyTest, AnExplicitContextIsClampedThereToo) {
  PlanOptions options;
  options.engine.policy = ReservePolicy::kDense;
  options.n_ctx = 999'999'999;
  const MemoryPlan plan = ReservedPlanOf(Gemma4(), options);
  EXPECT_EQ(plan.n_ctx, 262'144);
  EXPECT_EQ(plan.context_limit, ContextLimit::kTrainedContext);
}

}  // namespace
}  // namespace plimsoll::planner
