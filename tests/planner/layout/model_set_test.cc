// Several models in one budget.
#include "planner/layout/model_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/planner/shapes.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

using ::testing::HasSubstr;

SetPlan SetOf(const std::vector<SetMember>& members, int64_t budget) {
  auto set = PlanSet(members, CommittedCpuProfile(), budget);
  EXPECT_TRUE(set.ok()) << set.status();
  return set.ok() ? *std::move(set) : SetPlan{};
}

TEST(ModelSetTest, OneModelIsPlannedAsAlone) {
  const SetPlan set = SetOf({{Smollm2(), {}}}, 250 * kMiB);
  const auto alone = Layout(Smollm2(), {}, CommittedCpuProfile(), 250 * kMiB);
  EXPECT_EQ(set.plans[0].n_ctx, alone->n_ctx);
  EXPECT_EQ(set.total_bytes, alone->total_bytes);
}

TEST(ModelSetTest, MembersShareTheBudgetAtOneContextAndThatIsMaximal) {
  const std::vector<SetMember> members = {{Gemma270m(), {}}, {Smollm2(), {}}};
  const int64_t budget = 550 * kMiB;
  const SetPlan set = SetOf(members, budget);
  ASSERT_TRUE(set.fits);
  EXPECT_EQ(set.plans[0].n_ctx, set.plans[1].n_ctx);
  EXPECT_EQ(set.total_bytes,
            set.plans[0].total_bytes + set.plans[1].total_bytes);
  EXPECT_EQ(set.plans[1].FindRegion("runtime")->bytes, 0);  // one process
  std::vector<SetMember> more = members;
  for (SetMember& member : more) {
    member.options.n_ctx = set.plans[0].n_ctx + 64;
  }
  EXPECT_FALSE(SetOf(more, budget).fits);
}

TEST(ModelSetTest, AMemberStopsAtItsOwnLimit) {
  const SetPlan set = SetOf({{Gemma270m(), {}}, {Smollm2(), {}}}, 4'096 * kMiB);
  EXPECT_EQ(set.plans[0].n_ctx, 32'768);
  EXPECT_EQ(set.plans[1].n_ctx, 8'192);
}

TEST(ModelSetTest, AContextThatWasAskedForIsKept) {
  PlanOptions options;
  options.n_ctx = 128;
  const SetPlan set =
      SetOf({{Gemma270m(), options}, {Smollm2(), {}}}, 500 * kMiB);
  EXPECT_EQ(set.plans[0].n_ctx, 128);
  EXPECT_GT(set.plans[1].n_ctx, 128);
}

TEST(ModelSetTest, WhatDoesNotFitIsPlannedAtItsSmallest) {
  const SetPlan set = SetOf({{Gemma270m(), {}}, {Smollm2(), {}}}, 100 * kMiB);
  EXPECT_FALSE(set.fits);
  EXPECT_EQ(set.plans[0].n_ctx, 16);
}

TEST(ModelSetTest, ErrorsNameTheMember) {
  PlanOptions bad;
  bad.n_slots = 0;
  const auto set =
      PlanSet({{Smollm2(), {}}, {Smollm2(), bad}}, CommittedCpuProfile(), kMiB);
  EXPECT_TRUE(absl::IsInvalidArgument(set.status()));
  EXPECT_THAT(std::string(set.status().message()),
              HasSubstr("model 2: n_slots"));
}

TEST(ModelSetTest, MembersUpToTheirLimitAndNotPastIt) {
  PlanOptions options;
  options.n_ctx = 16;
  std::vector<SetMember> members(kMaxModelsInSet, {Smollm2(), options});
  EXPECT_TRUE(PlanSet(members, CommittedCpuProfile(), kMiB).ok());
  members.push_back({Smollm2(), options});
  EXPECT_TRUE(absl::IsInvalidArgument(
      PlanSet(members, CommittedCpuProfile(), kMiB).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(PlanSet({}, CommittedCpuProfile(), 1).status()));
}

TEST(ModelSetTest, LayersUpToTheirLimitAndNotPastIt) {
  PlanOptions options;
  options.n_ctx = 16;
  constexpr int64_t kLayers = kMaxLayersInSet / kMaxModelsInSet;
  std::vector<SetMember> members(kMaxModelsInSet,
                                 {DeepShape(kLayers), options});
  EXPECT_TRUE(PlanSet(members, CommittedCpuProfile(), kMiB).ok());
  members.back().shape = DeepShape(kLayers + 1);
  const auto refused = PlanSet(members, CommittedCpuProfile(), kMiB);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("with 16385 layers together, at most 16384"));
}

TEST(ModelSetTest, ReportsOverflow) {
  PlanOptions options;
  options.n_ctx = 16;
  options.engine.weight_bytes = int64_t{1} << 62;
  EXPECT_TRUE(
      absl::IsOutOfRange(PlanSet({{Smollm2(), options}, {Smollm2(), options}},
                                 CommittedCpuProfile(), kMiB)
                             .status()));
}

}  // namespace
}  // namespace plimsoll::planner
