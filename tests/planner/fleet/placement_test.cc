#include "planner/fleet/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/planner/fleet/placement_problems.h"

namespace plimsoll::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

PlacementProblem OneClass(std::vector<PlacementModel> models,
                          std::vector<int64_t> devices) {
  PlacementProblem problem{1, std::move(models), {}, std::nullopt};
  for (int64_t bytes : devices) {
    problem.devices.push_back(
        {absl::StrCat("gpu-", problem.devices.size()), 0, bytes});
  }
  return problem;
}

TEST(PlaceModelsTest, UsesAsFewDevicesAsItCan) {
  const auto placement = PlaceModels(
      OneClass({{"a", 2, 0, {6}}, {"b", 2, 0, {4}}}, {10, 10, 10, 10}));
  ASSERT_TRUE(placement.ok()) << placement.status();
  EXPECT_EQ(placement->n_placed, 4);
  EXPECT_EQ(placement->n_devices_used, 2);
  EXPECT_EQ(placement->min_devices_bound, 2);
  EXPECT_EQ(placement->max_placed_bound, 4);
  EXPECT_TRUE(placement->is_optimal);
  EXPECT_THAT(placement->devices_of,
              ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1)));
  EXPECT_THAT(placement->used_bytes, ElementsAre(10, 10, 0, 0));
  EXPECT_THAT(placement->unplaced, IsEmpty());
  EXPECT_EQ(placement->wanted_bytes, 20);
  EXPECT_EQ(placement->available_bytes, 40);
}

TEST(PlaceModelsTest, TakesTheClassWhereAModelNeedsLeast) {
  PlacementProblem problem{2, {{"a", 1, 0, {12, 7}}}, {}, std::nullopt};
  problem.devices = {{"x", 0, 11}, {"y", 1, 8}};
  const auto placement = PlaceModels(problem);
  ASSERT_TRUE(placement.ok());
  EXPECT_THAT(placement->devices_of, ElementsAre(ElementsAre(1)));
  EXPECT_EQ(placement->wanted_bytes, 7);
}

TEST(PlaceModelsTest, AHigherPriorityGoesFirstEvenIfItIsLarger) {
  const auto placement =
      PlaceModels(OneClass({{"small", 3, 0, {3}}, {"large", 1, 5, {9}}}, {10}));
  ASSERT_TRUE(placement.ok());
  EXPECT_THAT(placement->devices_of, ElementsAre(IsEmpty(), ElementsAre(0)));
  ASSERT_EQ(placement->unplaced.size(), 1u);
  EXPECT_EQ(placement->unplaced[0].n_replicas, 3);
  EXPECT_TRUE(placement->is_optimal);
}

TEST(PlaceModelsTest, WithinAPriorityMoreReplicasBeatALargerOne) {
  const auto placement =
      PlaceModels(OneClass({{"small", 3, 0, {3}}, {"large", 1, 0, {9}}}, {10}));
  ASSERT_TRUE(placement.ok());
  EXPECT_THAT(placement->devices_of,
              ElementsAre(ElementsAre(0, 0, 0), IsEmpty()));
  EXPECT_EQ(placement->max_placed_bound, 3);
}

TEST(PlaceModelsTest, TheSpreadRuleLimitsReplicasOfAModelOnADevice) {
  PlacementProblem problem =
      OneClass({{"a", 3, 0, {1}}, {"b", 1, 0, {1}}}, {10, 10});
  problem.max_replicas_per_device = 1;
  const auto placement = PlaceModels(problem);
  ASSERT_TRUE(placement.ok());
  EXPECT_THAT(placement->devices_of[0], ElementsAre(0, 1));
  EXPECT_EQ(placement->n_devices_used, 2);
  ASSERT_EQ(placement->unplaced.size(), 1u);
  EXPECT_EQ(placement->unplaced[0].n_spread_limit, 2);
  EXPECT_EQ(placement->unplaced[0].closest_device, -1);
  EXPECT_EQ(placement->unplaced[0].reason,
            "of 2 devices 2 hold as many replicas of it as one may");
}

TEST(PlaceModelsTest, TheCertificateCountsEveryDeviceOnce) {
  PlacementProblem problem{
      2,
      {{"wanted", 1, 0, {std::nullopt, 8}}, {"other", 1, 1, {std::nullopt, 5}}},
      {},
      std::nullopt};
  problem.devices = {{"cpu", 0, 100}, {"full", 1, 10}, {"small", 1, 4}};
  const auto placement = PlaceModels(problem);
  ASSERT_TRUE(placement.ok());
  ASSERT_EQ(placement->unplaced.size(), 1u);
  const UnplacedModel& unplaced = placement->unplaced[0];
  EXPECT_EQ(unplaced.model, 0);
  EXPECT_EQ(unplaced.n_cannot_run, 1);
  EXPECT_EQ(unplaced.n_too_small, 1);
  EXPECT_EQ(unplaced.n_full, 1);
  EXPECT_EQ(unplaced.closest_device, 1);
  EXPECT_EQ(unplaced.closest_free_bytes, 5);
  EXPECT_EQ(unplaced.needed_bytes, 8);
  EXPECT_EQ(unplaced.missing_bytes, 3);
  EXPECT_EQ(unplaced.reason,
            "of 3 devices 1 cannot run it, 1 would be too small even if empty, "
            "1 have too little left beside other models; full comes closest: "
            "one replica needs 8 bytes there, 5 are free, 3 are missing");
}

TEST(PlaceModelsTest, AModelThatNothingRunsLeavesTheOthersAlone) {
  PlacementProblem problem =
      OneClass({{"a", 1, 1, {std::nullopt}}, {"b", 1, 0, {1}}}, {1});
  const auto placement = PlaceModels(problem);
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(placement->n_placed, 1);
  EXPECT_EQ(placement->unplaced[0].reason, "of 1 device 1 cannot run it");
  EXPECT_EQ(placement->max_placed_bound, 1);
}

TEST(PlaceModelsTest, ADeviceOfZeroBytesHoldsNothing) {
  const auto placement = PlaceModels(OneClass({{"a", 1, 0, {1}}}, {0}));
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(placement->n_placed, 0);
  EXPECT_EQ(placement->min_devices_bound, 0);
  EXPECT_EQ(placement->max_placed_bound, 0);
  EXPECT_EQ(placement->unplaced[0].n_too_small, 1);
}

std::string ErrorOf(const PlacementProblem& problem) {
  const auto placement = PlaceModels(problem);
  EXPECT_EQ(placement.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(placement.status().message());
}

TEST(PlaceModelsTest, RefusesWhatMakesNoSenseAndNamesIt) {
  const PlacementProblem good = OneClass({{"a", 1, 0, {1}}}, {1});
  ASSERT_TRUE(PlaceModels(good).ok());
  const auto changed = [&](auto change) {
    PlacementProblem bad = good;
    change(bad);
    return ErrorOf(bad);
  };
  EXPECT_THAT(changed([](auto& p) { p.models.clear(); }), HasSubstr("models"));
  EXPECT_THAT(changed([](auto& p) { p.devices.clear(); }),
              HasSubstr("devices"));
  EXPECT_THAT(changed([](auto& p) { p.n_classes = 0; }), HasSubstr("classes"));
  EXPECT_THAT(changed([](auto& p) { p.models[0].n_replicas = 0; }),
              HasSubstr("replicas of model a is 0"));
  EXPECT_THAT(changed([](auto& p) { p.models[0].bytes.clear(); }),
              HasSubstr("classes with bytes of model a"));
  EXPECT_THAT(changed([](auto& p) { p.models[0].bytes[0] = 0; }),
              HasSubstr("bytes of model a is 0"));
  EXPECT_THAT(changed([](auto& p) { p.models.push_back(p.models[0]); }),
              HasSubstr("model a is there twice"));
  EXPECT_THAT(changed([](auto& p) { p.devices.push_back(p.devices[0]); }),
              HasSubstr("device gpu-0 is there twice"));
  EXPECT_THAT(changed([](auto& p) { p.devices[0].device_class = 1; }),
              HasSubstr("class of device gpu-0"));
  EXPECT_THAT(changed([](auto& p) { p.devices[0].available_bytes = -1; }),
              HasSubstr("available bytes of device gpu-0 is -1"));
  EXPECT_THAT(changed([](auto& p) { p.max_replicas_per_device = 0; }),
              HasSubstr("max_replicas_per_device"));
}

// A problem with so many of everything.
PlacementProblem Sized(int64_t n_models, int64_t n_devices, int64_t n_classes,
                       int64_t n_replicas, int64_t bytes) {
  PlacementProblem problem{n_classes, {}, {}, std::nullopt};
  for (int64_t m = 0; m < n_models; ++m) {
    problem.models.push_back({absl::StrCat("m", m),
                              m == 0 ? n_replicas - n_models + 1 : 1, 0,
                              std::vector<std::optional<int64_t>>(
                                  static_cast<size_t>(n_classes), bytes)});
  }
  for (int64_t d = 0; d < n_devices; ++d) {
    problem.devices.push_back({absl::StrCat("d", d), d % n_classes, bytes});
  }
  return problem;
}

TEST(PlaceModelsTest, WorksAtEachLimitAndRefusesOneMore) {
  using P = PlacementProblem;
  EXPECT_TRUE(PlaceModels(Sized(P::kMaxModels, 1, 1, P::kMaxModels, 1)).ok());
  EXPECT_THAT(ErrorOf(Sized(P::kMaxModels + 1, 1, 1, P::kMaxModels + 1, 1)),
              HasSubstr("the number of models is 1025"));
  EXPECT_TRUE(PlaceModels(Sized(1, P::kMaxDevices, 1, 1, 1)).ok());
  EXPECT_THAT(ErrorOf(Sized(1, P::kMaxDevices + 1, 1, 1, 1)),
              HasSubstr("the number of devices is 4097"));
  EXPECT_TRUE(PlaceModels(Sized(1, 1, P::kMaxClasses, 1, 1)).ok());
  EXPECT_THAT(ErrorOf(Sized(1, 1, P::kMaxClasses + 1, 1, 1)),
              HasSubstr("the number of classes is 65"));
  EXPECT_TRUE(PlaceModels(Sized(2, 9, 1, P::kMaxReplicas, 1)).ok());
  EXPECT_THAT(ErrorOf(Sized(2, 9, 1, P::kMaxReplicas + 1, 1)),
              HasSubstr("the number of replicas is 16385"));
  EXPECT_TRUE(PlaceModels(Sized(1, 1, 1, 1, P::kMaxBytes)).ok());
  EXPECT_THAT(ErrorOf(Sized(1, 1, 1, 1, P::kMaxBytes + 1)),
              HasSubstr("281474976710657"));
}

TEST(PlaceModelsTest, SumsAtTheLimitsDoNotOverflow) {
  using P = PlacementProblem;
  const auto placement =
      PlaceModels(Sized(1, P::kMaxDevices, 1, P::kMaxReplicas, P::kMaxBytes));
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(placement->n_placed, P::kMaxDevices);
  EXPECT_EQ(placement->max_placed_bound, P::kMaxDevices);
  EXPECT_EQ(placement->min_devices_bound, P::kMaxDevices);
  EXPECT_EQ(placement->available_bytes, P::kMaxDevices * P::kMaxBytes);
  EXPECT_EQ(placement->wanted_bytes, P::kMaxReplicas * P::kMaxBytes);
}

}  // namespace
}  // namespace plimsoll::planner
