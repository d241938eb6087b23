#include "planner/fleet/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "planner/layout/plan_regions.h"
#include "planner/model/weight_type.h"
#include "tests/planner/known_models.h"
#include "tests/planner/shapes.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

WhatIfAxes OneDevice(int64_t budget_bytes) {
  WhatIfAxes axes;
  axes.devices = {{CommittedCpuProfile(), budget_bytes}};
  return axes;
}

std::vector<WhatIfPoint> AllPoints(WhatIf& what_if, int64_t at_once) {
  std::vector<WhatIfPoint> all;
  while (!what_if.done()) {
    const auto points = what_if.Next(at_once);
    EXPECT_TRUE(points.ok()) << points.status();
    if (!points.ok()) break;
    all.insert(all.end(), points->begin(), points->end());
  }
  return all;
}

absl::Status CreateStatus(const ModelShape& shape, WhatIfAxes axes) {
  return WhatIf::Create(shape, {}, std::move(axes)).status();
}

// A few values of every axis.
WhatIfAxes RandomAxes(std::mt19937_64& random) {
  WhatIfAxes axes;
  const auto some = [&](auto& values, auto&& make) {
    values.clear();
    for (uint64_t n = 1 + random() % 3; n > 0; --n) values.push_back(make());
  };
  some(axes.devices, [&] {
    DeviceProfile profile = CommittedCpuProfile();
    profile.allocation = static_cast<AllocationRule>(random() % 3);
    if (random() % 2 == 0) profile.storage.pop_back();
    return WhatIfAxes::Device{profile, LogUniform(random, 64) * kGiB / 4};
  });
  constexpr std::array<DType, 5> kKv = {DType::kF16, DType::kF32, DType::kQ8_0,
                                        DType::kQ4_0, DType::kBF16};
  some(axes.kv, [&] {
    return WhatIfAxes::KvType{kKv[random() % 5], kKv[random() % 5]};
  });
  constexpr std::array<DType, 5> kWeights = {
      DType::kQ4_K, DType::kQ8_0, DType::kF16, DType::kQ6_K, DType::kQ4_0};
  some(axes.weights, [&] {
    return random() % 3 == 0 ? std::nullopt
                             : std::optional<DType>(kWeights[random() % 5]);
  });
  some(axes.n_ubatch, [&] { return LogUniform(random, 1'024); });
  some(axes.n_slots, [&] { return LogUniform(random, 64); });
  some(axes.n_ctx, [&] {
    return random() % 2 == 0 ? std::nullopt
                             : std::optional(LogUniform(random, 1 << 20));
  });
  return axes;
}

absl::StatusOr<MemoryPlan> PlanOf(const ModelShape& shape,
                                  const PlanOptions& base,
                                  const WhatIfAxes& axes,
                                  const WhatIfPoint& point) {
  PlanOptions options = base;
  options.n_ctx = point.wanted_ctx;
  options.n_slots = point.n_slots;
  options.n_ubatch = point.n_ubatch;
  options.k_type = point.kv.k;
  options.v_type = point.kv.v;
  const auto& device = axes.devices[static_cast<size_t>(point.device)];
  return Layout(point.weights ? *WithWeightType(shape, *point.weights) : shape,
                options, device.profile, device.budget_bytes);
}

TEST(WhatIfTest, EveryPointIsWhatAPlanSays) {
  std::mt19937_64 random(1);
  int n_compared = 0;
  for (int i = 0; i < 60; ++i) {
    const ModelShape shape = RandomShape(random);
    PlanOptions base;
    base.n_idle_sessions = static_cast<int64_t>(random() % 3);
    base.margin_bytes = LogUniform(random, kGiB);
    if (random() % 3 == 0) base.max_inference_len = LogUniform(random, 4'096);
    const WhatIfAxes axes = RandomAxes(random);
    auto what_if = WhatIf::Create(shape, base, axes);
    ASSERT_TRUE(what_if.ok()) << what_if.status();
    for (const WhatIfPoint& point :
         AllPoints(*what_if, LogUniform(random, 300))) {
      const auto plan = PlanOf(shape, base, axes, point);
      ASSERT_TRUE(plan.ok()) << plan.status();
      ASSERT_EQ(point.can_run, plan->not_runnable.empty());
      ++n_compared;
      ASSERT_EQ(point.n_ctx, plan->n_ctx);
      ASSERT_EQ(point.fits, plan->fits);
      ASSERT_EQ(point.budget_bytes, plan->budget_bytes);
      ASSERT_EQ(point.total_bytes, plan->total_bytes);
      ASSERT_EQ(point.arena_bytes, plan->arena_bytes);
      ASSERT_EQ(point.missing_bytes, plan->missing_bytes);
      ASSERT_EQ(point.kv_bytes, plan->kv.full_bytes + plan->kv.window_bytes);
      ASSERT_EQ(point.kv_bytes_per_token, plan->kv.bytes_per_token);
    }
  }
  EXPECT_GT(n_compared, 1'000);
}

TEST(WhatIfTest, TheLastAxisRunsFastest) {
  WhatIfAxes axes = OneDevice(kGiB);
  axes.devices.push_back({CommittedCpuProfile(), 2 * kGiB});
  axes.n_slots = {1, 2};
  axes.n_ctx = {16, std::nullopt, 64};
  auto what_if = WhatIf::Create(Smollm2(), {}, axes);
  ASSERT_TRUE(what_if.ok());
  const auto points = AllPoints(*what_if, 5);
  ASSERT_THAT(points, SizeIs(12));
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i].index, static_cast<int64_t>(i));
    EXPECT_EQ(points[i].wanted_ctx, axes.n_ctx[i % 3]);
    EXPECT_EQ(points[i].n_slots, axes.n_slots[i / 3 % 2]);
    EXPECT_EQ(points[i].device, static_cast<int64_t>(i / 6));
    EXPECT_EQ(points[i].budget_bytes, i < 6 ? kGiB : 2 * kGiB);
  }
}

TEST(WhatIfTest, NextGivesNoMoreThanAskedAndNothingAtTheEnd) {
  WhatIfAxes axes = OneDevice(kGiB);
  axes.n_slots = {1, 2, 3};
  auto what_if = WhatIf::Create(Smollm2(), {}, axes);
  ASSERT_TRUE(what_if.ok());
  EXPECT_EQ(what_if->n_points(), 3);
  EXPECT_THAT(*what_if->Next(0), IsEmpty());
  EXPECT_THAT(*what_if->Next(-1), IsEmpty());
  EXPECT_THAT(*what_if->Next(2), SizeIs(2));
  EXPECT_FALSE(what_if->done());
  EXPECT_THAT(*what_if->Next(2), SizeIs(1));
  EXPECT_TRUE(what_if->done());
  EXPECT_THAT(*what_if->Next(2), IsEmpty());
}

// The objectives of a point, larger is better in each.
std::array<int64_t, 5> GoodsOf(const ModelShape& shape,
                               const WhatIfPoint& point) {
  const auto bits = [](DType type, int64_t n) {
    return n / InfoOf(type).block_elems * InfoOf(type).block_bytes;
  };
  const ModelShape stored =
      point.weights ? *WithWeightType(shape, *point.weights) : shape;
  int64_t weight_bytes = 0;
  for (const WeightTensor& tensor : stored.weights) {
    if (tensor.is_vector) continue;
    weight_bytes += tensor.rows * bits(tensor.dtype, tensor.cols);
  }
  return {point.n_ctx, point.n_slots,
          bits(point.kv.k, 256) + bits(point.kv.v, 256), weight_bytes,
          -point.total_bytes};
}

TEST(WhatIfTest, TheFrontierIsWhatBruteForceFinds) {
  std::mt19937_64 random(2);
  size_t n_best = 0;
  for (int i = 0; i < 40; ++i) {
    const ModelShape shape = RandomShape(random);
    const WhatIfAxes axes = RandomAxes(random);
    auto what_if = WhatIf::Create(shape, {}, axes);
    ASSERT_TRUE(what_if.ok()) << what_if.status();
    const auto points = AllPoints(*what_if, 64);
    std::vector<std::array<int64_t, 5>> goods;
    for (const WhatIfPoint& point : points) {
      goods.push_back(GoodsOf(shape, point));
    }
    std::vector<int64_t> best;
    for (size_t a = 0; a < points.size(); ++a) {
      bool is_best = points[a].fits;
      for (size_t b = 0; is_best && b < points.size(); ++b) {
        if (!points[b].fits || points[b].device != points[a].device) {
          continue;
        }
        bool at_least_as_good = true;
        for (size_t g = 0; g < 5; ++g) {
          at_least_as_good &= goods[b][g] >= goods[a][g];
        }
        is_best = !at_least_as_good || goods[a] == goods[b];
      }
      if (is_best) best.push_back(points[a].index);
    }
    ASSERT_EQ(*what_if->Frontier(), best) << i;
    n_best += best.size();
  }
  EXPECT_GT(n_best, 200u);
}

TEST(WhatIfTest, TheFrontierIsOfThePointsVisited) {
  WhatIfAxes axes = OneDevice(kGiB);
  axes.devices[0].profile.allocation = AllocationRule::kExact;
  axes.n_ctx = {64, 32, 64};
  auto what_if = WhatIf::Create(Smollm2(), {}, axes);
  ASSERT_TRUE(what_if.ok());
  EXPECT_THAT(*what_if->Frontier(), IsEmpty());
  ASSERT_TRUE(what_if->Next(2).ok());
  EXPECT_THAT(*what_if->Frontier(), ElementsAre(0, 1));
  ASSERT_TRUE(what_if->Next(1).ok());
  EXPECT_THAT(*what_if->Frontier(), ElementsAre(0, 1, 2));
}

TEST(WhatIfTest, BytesBeyond63BitsAreAPointThatDoesNotFit) {
  ModelShape shape = Smollm2();
  shape.n_ctx_train = ModelShape::kMaxContext;
  WhatIfAxes axes = OneDevice(kGiB);
  axes.n_slots = {LoadOptions::kMaxSlots, 1};
  axes.n_ctx = {ModelShape::kMaxContext};
  auto what_if = WhatIf::Create(shape, {}, axes);
  ASSERT_TRUE(what_if.ok()) << what_if.status();
  const auto points = AllPoints(*what_if, 2);
  ASSERT_THAT(points, SizeIs(2));
  EXPECT_FALSE(points[0].fits);
  EXPECT_EQ(points[0].total_bytes, kMax);
  EXPECT_EQ(points[0].missing_bytes, kMax - kGiB);
  EXPECT_LT(points[1].total_bytes, kMax);
}

TEST(WhatIfTest, ADeviceWithoutKernelsForATypeStillGetsItsBytes) {
  WhatIfAxes axes = OneDevice(kGiB);
  std::erase_if(axes.devices[0].profile.storage, [](const StorageRule& rule) {
    return rule.dtype == DType::kNvfp4;
  });
  axes.weights = {DType::kNvfp4, DType::kQ4_1};
  auto what_if = WhatIf::Create(Smollm2(), {}, axes);
  ASSERT_TRUE(what_if.ok());
  const auto points = AllPoints(*what_if, 2);
  EXPECT_FALSE(points[0].can_run);
  EXPECT_TRUE(points[1].can_run);
  EXPECT_LT(points[0].total_bytes, points[1].total_bytes);
  EXPECT_THAT(*what_if->Frontier(), ElementsAre(0, 1));
}

TEST(WhatIfTest, TheGridHasAtMostAMillionPoints) {
  WhatIfAxes axes = OneDevice(kGiB);
  axes.n_slots.assign(1'000, 1);
  axes.n_ctx.assign(1'000, 16);
  EXPECT_TRUE(CreateStatus(Smollm2(), axes).ok());
  axes.n_ctx.push_back(16);
  const absl::Status status = CreateStatus(Smollm2(), axes);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1001000 points"));
}

TEST(WhatIfTest, AModelOfManyLayersHasFewerPoints) {
  HeaderNumbers numbers = Qwen3Numbers();
  numbers.Int("block_count", ModelShape::kMaxLayers);
  const ModelShape shape =
      ShapeWith(numbers, DType::kQ4_K, DType::kQ6_K, false);
  WhatIfAxes axes = OneDevice(kGiB);
  axes.n_slots.assign(1'000, 1);
  axes.n_ctx.assign(
      WhatIfAxes::kMaxLayerPoints / ModelShape::kMaxLayers / 1'000, 16);
  EXPECT_TRUE(CreateStatus(shape, axes).ok());
  axes.n_ctx.push_back(16);
  const absl::Status status = CreateStatus(shape, axes);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("251000 points, at most 250000 of a model with 512"));
}

TEST(WhatIfTest, ItChoosesNoNumberOfLayersWithExpertsOnTheHost) {
  PlanOptions base;
  base.n_cpu_experts.reset();
  const absl::Status status =
      WhatIf::Create(Smollm2(), base, OneDevice(kGiB)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("takes a number"), std::string::npos);
}

TEST(WhatIfTest, AGridWhoseSizeOverflowsIsRefused) {
  WhatIfAxes axes = OneDevice(kGiB);
  axes.n_slots.assign(WhatIfAxes::kMaxPoints, 1);
  axes.n_ctx.assign(WhatIfAxes::kMaxPoints, 16);
  axes.n_ubatch.assign(WhatIfAxes::kMaxPoints, 16);
  axes.weights.assign(WhatIfAxes::kMaxTypes, std::nullopt);
  EXPECT_EQ(CreateStatus(Smollm2(), axes).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(WhatIfTest, DevicesAndTypesAreAtMost64Each) {
  WhatIfAxes axes = OneDevice(kGiB);
  axes.devices.assign(64, axes.devices[0]);
  axes.weights.assign(64, DType::kF16);
  axes.kv.assign(64, {DType::kF16, DType::kF16});
  EXPECT_TRUE(CreateStatus(Smollm2(), axes).ok());
  const auto expect_refused = [](const WhatIfAxes& axes, const char* text) {
    const absl::Status status = CreateStatus(Smollm2(), axes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  WhatIfAxes more = axes;
  more.devices.push_back(axes.devices[0]);
  expect_refused(more, "devices has 65 values");
  more = axes;
  more.weights.push_back(std::nullopt);
  expect_refused(more, "weights has 65 values");
  more = axes;
  more.kv.push_back(axes.kv[0]);
  expect_refused(more, "kv has 65 values");
  more = OneDevice(kGiB);
  more.n_slots.assign(WhatIfAxes::kMaxPoints + 1, 1);
  expect_refused(more, "n_slots has 1000001 values");
}

struct BadAxis {
  const char* name;
  void (*spoil)(WhatIfAxes&);
};

class BadAxisTest : public ::testing::TestWithParam<BadAxis> {};

TEST_P(BadAxisTest, IsRefusedByName) {
  WhatIfAxes axes = OneDevice(kGiB);
  GetParam().spoil(axes);
  const absl::Status status = CreateStatus(Smollm2(), axes);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().name));
}

INSTANTIATE_TEST_SUITE_P(
    Axes, BadAxisTest,
    ::testing::Values(
        BadAxis{"devices", [](WhatIfAxes& a) { a.devices.clear(); }},
        BadAxis{"weights", [](WhatIfAxes& a) { a.weights.clear(); }},
        BadAxis{"kv", [](WhatIfAxes& a) { a.kv.clear(); }},
        BadAxis{"n_ubatch", [](WhatIfAxes& a) { a.n_ubatch.clear(); }},
        BadAxis{"n_slots", [](WhatIfAxes& a) { a.n_slots.clear(); }},
        BadAxis{"n_ctx", [](WhatIfAxes& a) { a.n_ctx.clear(); }},
        BadAxis{"n_ubatch",
                [](WhatIfAxes& a) {
                  a.n_ubatch = {512, 0};
                }},
        BadAxis{"n_slots",
                [](WhatIfAxes& a) {
                  a.n_slots = {1, 4'097};
                }},
        BadAxis{"n_ctx",
                [](WhatIfAxes& a) {
                  a.n_ctx = {16, 0};
                }},
        BadAxis{"weights", [](WhatIfAxes& a) { a.weights = {DType::kI8}; }},
        BadAxis{"budget",
                [](WhatIfAxes& a) { a.devices[0].budget_bytes = -1; }},
        BadAxis{"alignment",
                [](WhatIfAxes& a) { a.devices[0].profile.alignment = 3; }},
        // 64 elements of a head are no whole block of 256.
        BadAxis{"q6_K", [](WhatIfAxes& a) {
                  a.kv = {{DType::kF16, DType::kQ6_K}};
                }}));

}  // namespace
}  // namespace plimsoll::planner
