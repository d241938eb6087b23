// Layers over several devices: nothing lost, nothing twice, and maximal.
#include "planner/layout/layer_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "planner/layout/explain.h"
#include "tests/planner/known_models.h"
#include "tests/planner/shapes.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Optional;

SplitDevice Device(int64_t budget_bytes) {
  DeviceProfile profile = CommittedCpuProfile();
  profile.kind = "cuda";
  profile.runtime_bytes = 100 << 20;
  return {profile, budget_bytes};
}

// One that gives every byte asked for and no more.
SplitDevice ExactDevice(int64_t budget_bytes) {
  SplitDevice device = Device(budget_bytes);
  device.profile.allocation = AllocationRule::kExact;
  return device;
}

SplitPlan SplitOf(const ModelShape& shape, const PlanOptions& options,
                  const std::vector<SplitDevice>& devices) {
  auto split = SplitLayers(shape, options, devices);
  EXPECT_TRUE(split.ok()) << split.status();
  return split.ok() ? *std::move(split) : SplitPlan{};
}

TEST(LayerSplitTest, OneDeviceThatFitsHoldsTheWholeModel) {
  PlanOptions options;
  options.n_ctx = 4'096;
  const SplitDevice device = Device(80 * kGiB);
  const SplitPlan split = SplitOf(Gemma4(), options, {device, device});
  ASSERT_EQ(split.parts.size(), 1u);
  EXPECT_TRUE(split.fits);
  EXPECT_EQ(split.parts[0].n_layers, 48);
  const auto whole = Layout(Gemma4(), options, device.profile, 80 * kGiB);
  EXPECT_EQ(split.parts[0].plan.total_bytes, whole->total_bytes);
}

TEST(LayerSplitTest, LayersLieInOrderAndEachOnce) {
  const ModelShape shape = Gemma4();
  PlanOptions options;
  options.n_ctx = 32'768;
  const SplitPlan split = SplitOf(
      shape, options,
      {Device(3 * kGiB), Device(3 * kGiB), Device(kGiB / 8), Device(6 * kGiB)});
  ASSERT_TRUE(split.fits);
  ASSERT_EQ(split.parts.size(), 3u);  // the third device is too small
  EXPECT_EQ(split.parts[2].device, 3);
  int64_t next = 0;
  for (const SplitPart& part : split.parts) {
    EXPECT_EQ(part.first_layer, next);
    EXPECT_GT(part.n_layers, 0);
    EXPECT_TRUE(part.plan.fits);
    next += part.n_layers;
  }
  EXPECT_EQ(next, shape.n_layers);
}

TEST(LayerSplitTest, PartsHaveEveryWeightOnceButATiedTableTwice) {
  const ModelShape shape = Gemma4();
  const auto bytes = [](const ModelShape& s) {
    return std::accumulate(
        s.weights.begin(), s.weights.end(), int64_t{0},
        [](int64_t sum, const auto& w) { return sum + w.file_bytes; });
  };
  const auto first = SliceLayers(shape, 0, 20);
  const auto last = SliceLayers(shape, 20, 28);
  ASSERT_TRUE(first.ok() && last.ok());
  int64_t twice = 0;  // the tied table, and factors of the rotation
  for (const WeightTensor& tensor : shape.weights) {
    const bool is_table = tensor.kind == WeightKind::kEmbedding;
    if (is_table || tensor.name == "rope_freqs.weight") {
      twice += tensor.file_bytes;
    }
  }
  EXPECT_GT(twice, 0);
  EXPECT_EQ(bytes(*first) + bytes(*last), bytes(shape) + twice);
}

TEST(LayerSplitTest, TheSolvedContextIsMaximal) {
  const std::vector<SplitDevice> devices = {Device(4 * kGiB), Device(6 * kGiB)};
  const ModelShape shape = Gemma4();
  const SplitPlan split = SplitOf(shape, {}, devices);
  ASSERT_TRUE(split.fits);
  ASSERT_LT(split.n_ctx, shape.n_ctx_train);
  PlanOptions more;
  more.n_ctx = split.n_ctx + 64;
  EXPECT_FALSE(SplitOf(shape, more, devices).fits);
}

TEST(LayerSplitTest, LayersThatShareKeysStayTogether) {
  HeaderNumbers numbers("gemma3n");
  numbers.Int("context_length", 4'096)
      .Int("embedding_length", 64)
      .Int("block_count", 10)
      .Int("feed_forward_length", 96)
      .Int("attention.head_count", 4)
      .Int("attention.sliding_window", 64)
      .Int("attention.shared_kv_layers", 3)
      .Int("attention.key_length", 32)
      .Int("attention.value_length", 32)
      .Int("vocab_size", 100);
  const ModelShape shape = ShapeWith(numbers, DType::kF16, DType::kF16, true);
  EXPECT_TRUE(absl::IsInvalidArgument(SliceLayers(shape, 7, 3).status()));
  PlanOptions options;
  options.n_ctx = 256;
  const int64_t whole =
      Layout(shape, options, Device(kGiB).profile, kGiB)->total_bytes;
  const SplitPlan split =
      SplitOf(shape, options, {Device(whole - 1), Device(whole)});
  ASSERT_TRUE(split.fits);
  ASSERT_EQ(split.parts.size(), 2u);
  EXPECT_LE(split.parts[1].first_layer, 4);  // the global layer that is read
}

TEST(LayerSplitTest, WhatDoesNotFitSaysHowManyLayersAreLeft) {
  PlanOptions options;
  options.n_ctx = 4'096;
  const SplitPlan split = SplitOf(Gemma4(), options, {Device(2 * kGiB)});
  EXPECT_FALSE(split.fits);
  EXPECT_GT(split.n_layers_left, 0);
  EXPECT_LT(split.n_layers_left, 48);
  const SplitPlan solved = SplitOf(Gemma4(), {}, {Device(2 * kGiB)});
  EXPECT_FALSE(solved.fits);
  EXPECT_EQ(solved.n_ctx, 0);
}

TEST(LayerSplitTest, TheReasonOfTheContextIsThatOfAllParts) {
  const std::vector<SplitDevice> devices = {Device(4 * kGiB), Device(6 * kGiB)};
  const ModelShape shape = Gemma4();
  const auto reason = [&](const PlanOptions& options,
                          const std::vector<SplitDevice>& on) {
    const SplitPlan split = SplitOf(shape, options, on);
    for (const SplitPart& part : split.parts) {
      EXPECT_EQ(part.plan.n_ctx_reason, split.n_ctx_reason);
      EXPECT_EQ(part.plan.n_ctx, split.parts.front().plan.n_ctx);
    }
    return split.n_ctx_reason;
  };
  const SplitPlan solved = SplitOf(shape, {}, devices);
  EXPECT_EQ(reason({}, devices),
            WithThousands(solved.n_ctx) +
                " tokens are the largest context with which every layer finds "
                "a device");
  EXPECT_EQ(solved.parts.back().plan.context_limit, ContextLimit::kMemory);
  PlanOptions asked;
  asked.n_ctx = 4'096;
  EXPECT_EQ(reason(asked, devices), "4,096 tokens were requested");
  PlanOptions capped;
  capped.max_inference_len = 100;
  EXPECT_EQ(reason(capped, devices), "max_inference_len is 100 tokens");
  asked.n_ctx = 1'000'000'000;
  EXPECT_THAT(reason(asked, {Device(64 * kGiB), Device(64 * kGiB)}),
              HasSubstr("the requested 1,000,000,000 was cut to it"));
  EXPECT_THAT(reason({}, {Device(2 * kGiB), Device(kGiB)}),
              HasSubstr("not even 16 tokens fit: "));
  EXPECT_EQ(SplitOf(shape, asked, {Device(1)}).n_ctx_reason, "");
}

// Where `devices` are too small: what the last one lacks is just enough, and
// every suggestion makes it fit. Returns their changes.
std::vector<Change> CheckAdvice(const PlanOptions& options,
                                std::vector<SplitDevice> devices) {
  const ModelShape shape = Gemma4();
  const SplitPlan split = SplitOf(shape, options, devices);
  EXPECT_FALSE(split.fits);
  EXPECT_GT(split.missing_bytes, 0);
  std::vector<Change> changes;
  for (const Suggestion& suggestion : split.suggestions) {
    changes.push_back(suggestion.change);
    EXPECT_GE(suggestion.saves_bytes, split.missing_bytes);
    const SplitPlan better =
        SplitOf(shape, Changed(options, suggestion.change), devices);
    EXPECT_TRUE(better.fits);
    EXPECT_EQ(better.n_ctx, suggestion.n_ctx);
  }
  devices.back().budget_bytes += split.missing_bytes - 1;
  EXPECT_FALSE(SplitOf(shape, options, devices).fits);
  devices.back().budget_bytes += 1;
  EXPECT_TRUE(SplitOf(shape, options, devices).fits);
  return changes;
}

TEST(LayerSplitTest, WhatDoesNotFitSaysWhatHelps) {
  PlanOptions options;
  options.n_ctx = 65'536;
  options.n_slots = 4;
  const int64_t first = 4 * kGiB;
  const auto least = [&](const PlanOptions& asked) {
    const SplitPlan split =
        SplitOf(Gemma4(), asked, {ExactDevice(first), ExactDevice(64 * kGiB)});
    return split.parts.back().plan.total_bytes;
  };
  EXPECT_THAT(CheckAdvice(options, {ExactDevice(first),
                                    ExactDevice(least(options) - 1)}),
              ElementsAre(Change{.n_ubatch = 256},
                          Change{.kv_type = DType::kQ8_0}, Change{.n_slots = 3},
                          Field(&Change::n_ctx, Optional(Ge(65'000)))));
  // Where no change by itself is enough, all together.
  Change least_change = {.n_ubatch = 16, .kv_type = DType::kQ8_0, .n_slots = 1};
  PlanOptions all = options;
  all.n_ctx = 16;
  all.n_slots = 1;
  all.k_type = all.v_type = DType::kQ8_0;
  const std::vector<SplitDevice> devices = {ExactDevice(first),
                                            ExactDevice(least(all))};
  PlanOptions solved = options;
  solved.n_ctx.reset();
  EXPECT_THAT(CheckAdvice(solved, devices), ElementsAre(least_change));
  least_change.n_ctx = 16;
  EXPECT_THAT(CheckAdvice(options, devices), ElementsAre(least_change));
  // Nothing helps.
  EXPECT_THAT(CheckAdvice(options, {Device(kGiB), Device(kGiB)}), IsEmpty());
}

TEST(LayerSplitTest, AdviceFillsTheBytesForIdleSessionsAnew) {
  PlanOptions options;
  options.n_ctx = 65'536;
  options.n_slots = 4;
  options.idle_session_bytes = 2 * kGiB;
  const int64_t first = 4 * kGiB;
  const SplitPlan split =
      SplitOf(Gemma4(), options, {ExactDevice(first), ExactDevice(64 * kGiB)});
  EXPECT_GT(split.parts.back().plan.options.n_idle_sessions, 0);
  const int64_t least = split.parts.back().plan.total_bytes;
  EXPECT_THAT(
      CheckAdvice(options, {ExactDevice(first), ExactDevice(least - 1)}),
      Contains(Change{.kv_type = DType::kQ8_0}));
  // As many as have room, and no more, with every type.
  for (const DType type : {DType::kF16, DType::kQ8_0}) {
    options.k_type = options.v_type = type;
    int64_t idle_bytes = 0;
    int64_t place_bytes = 0;
    for (const SplitPart& part :
         SplitOf(Gemma4(), options,
                 {ExactDevice(first), ExactDevice(64 * kGiB)})
             .parts) {
      idle_bytes += part.plan.IdleSessionBytes();
      place_bytes += part.plan.kv.PlaceBytes();
    }
    EXPECT_LE(idle_bytes, 2 * kGiB);
    EXPECT_GT(idle_bytes, 2 * kGiB - place_bytes);
  }
}

TEST(LayerSplitTest, KeysAndValuesAreMadeSmallerWhereAllDevicesCan) {
  PlanOptions options;
  options.n_ctx = 65'536;
  SplitDevice first = Device(4 * kGiB);
  const SplitPlan large =
      SplitOf(Gemma4(), options, {first, Device(64 * kGiB)});
  const SplitDevice last = Device(large.parts.back().plan.total_bytes - 1);
  const Change smaller = {.kv_type = DType::kQ8_0};
  EXPECT_THAT(CheckAdvice(options, {first, last}), Contains(smaller));
  std::erase(first.profile.kv_types, DType::kQ8_0);
  EXPECT_THAT(CheckAdvice(options, {first, last}), Not(Contains(smaller)));
  options.k_type = options.v_type = DType::kQ8_0;
  EXPECT_THAT(CheckAdvice(options, {last, Device(kGiB)}),
              Not(Contains(smaller)));
}

TEST(LayerSplitTest, DevicesUpToTheirLimitAndNotPastIt) {
  PlanOptions options;
  options.n_ctx = 64;
  std::vector<SplitDevice> devices(kMaxSplitDevices, Device(kGiB));
  EXPECT_TRUE(SplitLayers(Smollm2(), options, devices).ok());
  devices.push_back(Device(kGiB));
  EXPECT_TRUE(absl::IsInvalidArgument(
      SplitLayers(Smollm2(), options, devices).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(SplitLayers(Smollm2(), options, {}).status()));
}

TEST(LayerSplitTest, LayersTimesDevicesUpToTheirLimitAndNotPastIt) {
  PlanOptions options;
  options.n_ctx = 64;
  const std::vector<SplitDevice> devices(kMaxSplitDevices, Device(kGiB));
  constexpr int64_t kLayers = kMaxSplitLayers / kMaxSplitDevices;
  for (const int64_t n_layers : {int64_t{128}, kLayers}) {
    EXPECT_TRUE(SplitLayers(DeepShape(n_layers), options, devices).ok());
  }
  const auto refused = SplitLayers(DeepShape(kLayers + 1), options, devices);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("257 layers over 64 devices: their product is 16448, "
                        "at most 16384"));
}

TEST(LayerSplitTest, WhatBelongsToNoLayerGoesWhereItIsRead) {
  ModelShape shape = Smollm2();
  shape.tied_output = false;
  shape.weights.clear();
  for (const char* name :
       {"token_embd.weight", "blk.x.weight", "altup_proj.weight", "blk.29.a",
        "output.weight", "altup_unembd_proj.weight", "rope_freqs.weight"}) {
    shape.weights.push_back({name, DType::kF32, 64, 1, true, 0, 0});
  }
  shape.weights[0].kind = WeightKind::kEmbedding;
  const auto names = [&shape](int64_t first, int64_t n) {
    std::vector<std::string> all;
    const ModelShape slice = *SliceLayers(shape, first, n);
    for (const WeightTensor& tensor : slice.weights) all.push_back(tensor.name);
    return all;
  };
  EXPECT_EQ(names(0, 29), (std::vector<std::string>{
                              "token_embd.weight", "blk.x.weight",
                              "altup_proj.weight", "rope_freqs.weight"}));
  EXPECT_EQ(names(29, 1), (std::vector<std::string>{"blk.29.a", "output.weight",
                                                    "altup_unembd_proj.weight",
                                                    "rope_freqs.weight"}));
  EXPECT_EQ(names(10, 9), std::vector<std::string>{"rope_freqs.weight"});
}

TEST(LayerSplitTest, RangesOutsideTheModelAreRefused) {
  for (const auto& [first, n] : {std::pair<int64_t, int64_t>{-1, 1},
                                 {0, 0},
                                 {0, 31},
                                 {30, 1},
                                 {29, 2}}) {
    EXPECT_TRUE(
        absl::IsInvalidArgument(SliceLayers(Smollm2(), first, n).status()));
  }
  EXPECT_TRUE(SliceLayers(Smollm2(), 29, 1).ok());
}

TEST(LayerSplitTest, WhatLayoutRefusesIsRefused) {
  PlanOptions options;
  options.n_slots = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(
      SplitLayers(Smollm2(), options, {Device(kGiB)}).status()));
}

}  // namespace
}  // namespace plimsoll::planner
