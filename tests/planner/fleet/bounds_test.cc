#include "planner/fleet/bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/planner/shapes.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

using ::testing::IsEmpty;
using Code = absl::StatusCode;

constexpr int64_t kGib = int64_t{1} << 30;

// Two full layers of 2 heads of 32: 256 bytes of f16 a token and layer.
ModelShape Tiny() {
  return MakeShape(
      {2, 64, 2, 2, 32, 128, 1'000, 4'096, 0, DType::kF16, DType::kF16});
}

PlanOptions WithContext(int64_t n_ctx) {
  PlanOptions options;
  options.n_ctx = n_ctx;
  return options;
}

TEST(WeightBytesPerStepTest, SumsEveryWeightOfATiedModel) {
  // embedding 64 x 1000; a layer: norm 64 x f32, q 64, kv 128, o 64, up and
  // gate 256, down 64 of 128.
  const int64_t layer =
      64 * 4 + 2 * (64 * 64 + 64 * 128 + 64 * 64 + 64 * 256 + 128 * 64);
  EXPECT_EQ(*WeightBytesPerStep(Tiny()), 2 * 64 * 1'000 + 2 * layer);
}

TEST(WeightBytesPerStepTest, LeavesOutATableThatOnlyGivesRows) {
  ModelShape shape = Tiny();
  const int64_t tied = *WeightBytesPerStep(shape);
  shape.tied_output = false;
  shape.weights[0].kind = WeightKind::kEmbedding;
  EXPECT_EQ(*WeightBytesPerStep(shape), tied - 2 * 64 * 1'000);
  shape.tied_output = true;
  EXPECT_EQ(*WeightBytesPerStep(shape), tied);
}

TEST(WeightBytesPerStepTest, OfExpertsOnlyThoseThatTokensChoose) {
  ModelShape shape = Tiny();
  const int64_t dense = *WeightBytesPerStep(shape);
  shape.n_experts = 8;
  shape.n_experts_used = 2;
  shape.weights.push_back({.name = "experts",
                           .dtype = DType::kF16,
                           .cols = 64,
                           .rows = 10,
                           .is_vector = false,
                           .file_offset = 0,
                           .file_bytes = 0,
                           .n_matrices = 8,
                           .kind = WeightKind::kExpert});
  const int64_t expert = 64 * 2 * 10;
  EXPECT_EQ(*WeightBytesPerStep(shape), dense + 2 * expert);
  shape.n_experts_used = 9;
  EXPECT_EQ(*WeightBytesPerStep(shape), dense + 8 * expert);
  shape.weights.back().kind = WeightKind::kPerLayerEmbedding;
  EXPECT_EQ(*WeightBytesPerStep(shape), dense);
}

TEST(WeightBytesPerStepTest, ReportsBadRowsAndOverflow) {
  ModelShape shape = Tiny();
  shape.weights[0].rows = kMax;
  EXPECT_EQ(WeightBytesPerStep(shape).status().code(), Code::kOutOfRange);
  shape.weights[0].cols = -1;
  EXPECT_EQ(WeightBytesPerStep(shape).status().code(), Code::kInvalidArgument);
}

TEST(BoundDecodeTest, DividesTheBandwidthByWhatAStepReads) {
  const ModelShape shape = Tiny();
  const auto bound =
      BoundDecode(shape, {.n_ctx = 128, .n_sequences = 1}, 1'000'000'000);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(bound->weight_bytes, *WeightBytesPerStep(shape));
  EXPECT_EQ(bound->kv_bytes, 128 * 2 * 256);
  EXPECT_DOUBLE_EQ(
      bound->steps_per_s,
      1e9 / static_cast<double>(bound->weight_bytes + bound->kv_bytes));
  EXPECT_DOUBLE_EQ(bound->tokens_per_s, bound->steps_per_s);
}

TEST(BoundDecodeTest, SequencesShareTheWeights) {
  const ModelShape shape = Tiny();
  const auto one = BoundDecode(shape, {.n_ctx = 64, .n_sequences = 1}, kGib);
  const auto four = BoundDecode(shape, {.n_ctx = 64, .n_sequences = 4}, kGib);
  ASSERT_TRUE(one.ok() && four.ok());
  EXPECT_EQ(four->kv_bytes, one->kv_bytes);
  EXPECT_DOUBLE_EQ(
      four->steps_per_s,
      static_cast<double>(kGib) /
          static_cast<double>(one->weight_bytes + 4 * one->kv_bytes));
  EXPECT_DOUBLE_EQ(four->tokens_per_s, 4 * four->steps_per_s);
  EXPECT_GT(four->tokens_per_s, one->tokens_per_s);
}

TEST(BoundDecodeTest, WindowLayersReadTheirWindowOnly) {
  const ModelShape shape = Gemma270m();
  const auto at = [&](int64_t n_ctx) {
    return BoundDecode(shape, {.n_ctx = n_ctx, .n_sequences = 1}, kGib)
        ->kv_bytes;
  };
  // Three of eighteen layers are global: 1 head of 256, K and V.
  EXPECT_EQ(at(32'768) - at(16'384), 16'384 * 3 * 1'024);
}

TEST(BoundDecodeTest, RefusesWhatMakesNoSense) {
  const auto code = [](int64_t n_ctx, int64_t n, int64_t bandwidth) {
    return BoundDecode(Tiny(), {.n_ctx = n_ctx, .n_sequences = n}, bandwidth)
        .status()
        .code();
  };
  EXPECT_EQ(code(64, 1, 0), Code::kInvalidArgument);
  EXPECT_EQ(code(64, 0, 1), Code::kInvalidArgument);
  EXPECT_EQ(code(0, 1, 1), Code::kInvalidArgument);
  EXPECT_EQ(code(kMax, 1, 1), Code::kOutOfRange);
  // Caches that fit in int64, but not together with the weights.
  ModelShape shape = Tiny();
  shape.weights[0].rows = kMax / 128 - 10'000;
  EXPECT_EQ(BoundDecode(shape, {.n_ctx = 4'096, .n_sequences = 4'096}, 1)
                .status()
                .code(),
            Code::kOutOfRange);
  shape.weights[0].rows = kMax;
  EXPECT_EQ(
      BoundDecode(shape, {.n_ctx = 64, .n_sequences = 1}, 1).status().code(),
      Code::kOutOfRange);
}

TEST(TokensPerGibTest, IsWhatAGibHoldsInPages) {
  PlanOptions options = WithContext(128);
  const auto plan = Layout(Tiny(), options, CommittedCpuProfile(), kGib);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(TokensPerGib(*plan), kGib / 512);
  options.n_slots = 3;
  EXPECT_EQ(TokensPerGib(*Layout(Tiny(), options, CommittedCpuProfile(), kGib)),
            kGib / (3 * 64 * 512) * 64);
}

TEST(TokensPerGibTest, IsAbsentWhereContextCostsNothingMore) {
  ModelShape shape = Tiny();
  for (LayerShape& layer : shape.layers) layer.window = 128;
  const auto plan =
      Layout(shape, WithContext(1'024), CommittedCpuProfile(), kGib);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(TokensPerGib(*plan), std::nullopt);
}

TEST(TokensPerGibTest, IsZeroForAPlanBeyondAllMemory) {
  MemoryPlan plan = {};
  plan.kv.page_bytes = kMax;
  plan.kv.page_tokens = 64;
  plan.options.n_slots = 2;
  EXPECT_EQ(TokensPerGib(plan), 0);
}

TEST(MaxSessionsTest, OneMoreDoesNotFit) {
  const ModelShape shape = Smollm2();
  const DeviceProfile profile = CommittedCpuProfile();
  PlanOptions options = WithContext(2'048);
  const auto sessions = MaxSessions(shape, options, profile, 2 * kGib);
  ASSERT_TRUE(sessions.ok()) << sessions.status();
  EXPECT_GT(*sessions, 1);
  options.n_slots = *sessions;
  EXPECT_TRUE(Layout(shape, options, profile, 2 * kGib)->fits);
  options.n_slots = *sessions + 1;
  EXPECT_FALSE(Layout(shape, options, profile, 2 * kGib)->fits);
}

TEST(MaxSessionsTest, IsZeroWithoutRoomAndCappedWithPlenty) {
  const DeviceProfile profile = CommittedCpuProfile();
  EXPECT_EQ(*MaxSessions(Tiny(), WithContext(64), profile, 0), 0);
  EXPECT_EQ(*MaxSessions(Tiny(), WithContext(64), profile, kMax),
            LoadOptions::kMaxSlots);
}

TEST(MaxSessionsTest, ReportsWhatLayoutReports) {
  const DeviceProfile profile = CommittedCpuProfile();
  EXPECT_EQ(MaxSessions(Tiny(), PlanOptions(), profile, kGib).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(MaxSessions(Tiny(), WithContext(0), profile, kGib).status().code(),
            Code::kInvalidArgument);
}

DeviceCatalogue Catalogue() {
  return *DeviceCatalogue::Parse(
      "name,title,kind,memory_bytes,memory_basis,bandwidth_bytes_per_s,year,"
      "source\n"
      "tiny,Tiny,board,1048576,nominal,1000000,2020,\n"
      "large,Large,gpu,17179869184,driver,500000000000,2020,\n"
      "small,Small,board,2147483648,nominal,10000000000,2020,\n");
}

TEST(FittingDevicesTest, AreThoseWithRoomTheSmallestFirst) {
  const auto fitting =
      FittingDevices(Smollm2(), WithContext(4'096), Catalogue());
  ASSERT_TRUE(fitting.ok()) << fitting.status();
  ASSERT_EQ(fitting->size(), 2u);
  EXPECT_EQ((*fitting)[0].device.name, "small");
  EXPECT_EQ((*fitting)[1].device.name, "large");
  for (const FittingDevice& device : *fitting) {
    const DeviceBounds& bounds = device.bounds;
    EXPECT_TRUE(bounds.plan.fits);
    EXPECT_EQ(bounds.plan.n_ctx, 4'096);
    EXPECT_EQ(bounds.tokens_per_gib, TokensPerGib(bounds.plan));
    EXPECT_GE(bounds.max_sessions, 1);
    EXPECT_DOUBLE_EQ(bounds.decode->tokens_per_s,
                     static_cast<double>(device.device.bandwidth_bytes_per_s) /
                         static_cast<double>(bounds.decode->weight_bytes +
                                             bounds.decode->kv_bytes));
  }
}

TEST(FittingDevicesTest, WithoutAContextEachGetsTheLongest) {
  const auto fitting = FittingDevices(Smollm2(), PlanOptions(), Catalogue());
  ASSERT_TRUE(fitting.ok());
  ASSERT_EQ(fitting->size(), 2u);
  EXPECT_EQ((*fitting)[1].bounds.plan.n_ctx, 8'192);
}

TEST(FittingDevicesTest, AreNoneForAPlanThatDoesNotFitInInt64) {
  PlanOptions options;
  options.n_ctx = ModelShape::kMaxContext;
  options.n_slots = LoadOptions::kMaxSlots;
  ModelShape shape = Tiny();
  shape.n_ctx_train = ModelShape::kMaxContext;
  for (LayerShape& layer : shape.layers) layer.n_kv_heads = 1 << 16;
  EXPECT_THAT(*FittingDevices(shape, options, Catalogue()), IsEmpty());
}

TEST(BoundsOnTest, ReportsErrorsAndLeavesOutWhatIsNotKnown) {
  const DeviceProfile profile = CommittedCpuProfile();
  const auto bounds =
      BoundsOn(Tiny(), WithContext(64), {profile, kGib, std::nullopt});
  ASSERT_TRUE(bounds.ok() && bounds->has_value());
  EXPECT_FALSE((*bounds)->decode.has_value());
  EXPECT_EQ(
      BoundsOn(Tiny(), WithContext(64), {profile, kGib, 0}).status().code(),
      Code::kInvalidArgument);
  EXPECT_EQ(
      BoundsOn(Tiny(), WithContext(0), {profile, kGib, 1}).status().code(),
      Code::kInvalidArgument);
  EXPECT_FALSE(BoundsOn(Tiny(), WithContext(64), {profile, 0, 1})->has_value());
}

}  // namespace
}  // namespace plimsoll::planner
