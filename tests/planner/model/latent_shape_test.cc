// Latent attention: its tensors, the bytes of its cache and of a step, and
// numbers that make no sense.
#include "planner/model/latent_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "planner/layout/kv_cache_bytes.h"
#include "planner/layout/memory_plan.h"
#include "planner/layout/workspace_layout.h"
#include "tests/planner/known_models.h"
#include "tests/planner/model/small_models.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

using ::testing::HasSubstr;

std::map<std::string, WeightTensor> ByName(const ModelShape& shape) {
  std::map<std::string, WeightTensor> tensors;
  for (const WeightTensor& tensor : shape.weights) {
    tensors[tensor.name] = tensor;
  }
  return tensors;
}

int64_t CountParameters(const ModelShape& shape) {
  int64_t n = 0;
  for (const WeightTensor& tensor : shape.weights) {
    n += tensor.cols * tensor.rows * tensor.n_matrices;
  }
  return n;
}

ModelShape V3() {
  return ShapeWith(DeepseekV3Numbers(), DType::kQ8_0, DType::kQ8_0, false);
}
ModelShape V2Lite() {
  return ShapeWith(DeepseekV2LiteNumbers(), DType::kQ8_0, DType::kQ8_0, false);
}

// A row of `rank` and `n_rot` elements.
HeaderNumbers WithRow(uint64_t rank, uint64_t n_rot) {
  HeaderNumbers numbers = Small("deepseek2");
  numbers.Int("attention.kv_lora_rank", rank)
      .Int("attention.value_length", rank)
      .Int("attention.key_length", rank + n_rot)
      .Int("rope.dimension_count", n_rot)
      .Int("attention.key_length_mla", n_rot + 8);
  return numbers;
}

TEST(LatentShapeTest, ParametersAreThePublishedNumber) {
  EXPECT_EQ(CountParameters(V2Lite()), 15'706'484'224);
  // Without the bias of the choice, which a header of numbers does not have.
  EXPECT_EQ(CountParameters(V3()), 671'026'419'200 - 58 * 256);
}

TEST(LatentShapeTest, ARowOfTheCacheIsTwoTensors) {
  const ModelShape shape = V3();
  auto tensors = ByName(shape);
  const WeightTensor& vector = tensors["blk.7.attn_kv_a.weight"];
  const WeightTensor& rotated = tensors["blk.7.attn_k_rot.weight"];
  EXPECT_EQ(vector.rows, 512);
  EXPECT_EQ(rotated.rows, 64);
  EXPECT_EQ(vector.cols, 7'168);
  EXPECT_EQ(rotated.file_offset, vector.file_offset + 512 * 7'168 / 32 * 34);
  EXPECT_FALSE(tensors.contains("blk.7.attn_kv_a_mqa.weight"));
}

TEST(LatentShapeTest, EachHeadHasMatricesOfItsOwn) {
  auto tensors = ByName(V3());
  const WeightTensor& keys = tensors["blk.0.attn_k_b.weight"];
  EXPECT_EQ(keys.n_matrices, 128);
  EXPECT_EQ(keys.cols, 128);
  EXPECT_EQ(keys.rows, 512);
  const WeightTensor& values = tensors["blk.0.attn_v_b.weight"];
  EXPECT_EQ(values.n_matrices, 128);
  EXPECT_EQ(values.cols, 512);
  EXPECT_EQ(values.rows, 128);
  EXPECT_EQ(tensors["blk.0.attn_output.weight"].cols, 128 * 128);
}

TEST(LatentShapeTest, QueriesAreOneProductOrTwo) {
  auto two = ByName(V3());
  EXPECT_EQ(two["blk.0.attn_q_a.weight"].rows, 1'536);
  EXPECT_EQ(two["blk.0.attn_q_b.weight"].rows, 128 * 192);
  EXPECT_FALSE(two.contains("blk.0.attn_q.weight"));
  auto one = ByName(V2Lite());
  EXPECT_EQ(one["blk.0.attn_q.weight"].rows, 16 * 192);
  EXPECT_FALSE(one.contains("blk.0.attn_q_a.weight"));
}

TEST(LatentShapeTest, TheCacheHasOneRowForAllHeads) {
  struct {
    ModelShape shape;
    DType type;
    int64_t bytes_per_token;
  } const cases[] = {{V3(), DType::kF16, 61 * 576 * 2},
                     {V3(), DType::kQ8_0, 61 * 576 / 32 * 34},
                     {V3(), DType::kQ4_0, 61 * 576 / 32 * 18},
                     {V2Lite(), DType::kF16, 27 * 576 * 2},
                     {V2Lite(), DType::kF32, 27 * 576 * 4}};
  for (const auto& c : cases) {
    // There are no rows of values, so that their type does not count.
    for (const DType v_type : {DType::kF32, DType::kQ8_0}) {
      const auto kv = KvCacheBytes(
          c.shape,
          {.n_ctx = 4'096, .n_slots = 3, .k_type = c.type, .v_type = v_type});
      ASSERT_TRUE(kv.ok()) << kv.status();
      EXPECT_EQ(kv->bytes_per_token, c.bytes_per_token);
      EXPECT_EQ(kv->full_bytes, 3 * 4'096 * c.bytes_per_token);
      EXPECT_EQ(kv->window_bytes, 0);
    }
  }
}

TEST(LatentShapeTest, ARowIsWholeBlocksOfTheCachesType) {
  const auto kv_of = [](uint64_t n_rot, DType type) {
    const ModelShape shape = *ShapeOf(WithRow(32, n_rot));
    return KvCacheBytes(shape, {.n_ctx = 64, .n_slots = 1, .k_type = type})
        .status();
  };
  for (const DType type : {DType::kQ8_0, DType::kQ5_1, DType::kQ4_0}) {
    EXPECT_TRUE(kv_of(32, type).ok());
    const absl::Status status = kv_of(16, type);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("48"));
  }
  EXPECT_TRUE(kv_of(16, DType::kF16).ok());
}

TEST(LatentShapeTest, AStepHasRoomForHeadsOfBothKinds) {
  const ModelShape shape = V3();
  const auto widths = WidthsOf(shape, DType::kF16, DType::kF16);
  ASSERT_TRUE(widths.ok());
  const auto plan = WorkspaceLayout(
      shape, *widths, {.n_rows = 64, .n_sampled = 16, .has_rings = false},
      CommittedCpuProfile());
  ASSERT_TRUE(plan.ok());
  const auto bytes = [&](StepBuffer b) { return (*plan)[b].bytes; };
  EXPECT_EQ(bytes(StepBuffer::kQuery), 64 * 128 * 576 * 4);
  EXPECT_EQ(bytes(StepBuffer::kPrefixQuery), 64 * 128 * 576 * 4);
  EXPECT_EQ(bytes(StepBuffer::kHeads), 64 * 128 * 192 * 4);
  EXPECT_EQ(bytes(StepBuffer::kAttention), 64 * 128 * 512 * 4);
  EXPECT_EQ(bytes(StepBuffer::kKey), 64 * 576 * 4);
  // The widest packed input is that of dense layers.
  EXPECT_EQ(bytes(StepBuffer::kActivations), 64 * 18'432 / 32 * 80);
}

TEST(LatentShapeTest, ModelsArePlanned) {
  PlanOptions options;
  options.n_ctx = 8'192;
  const auto plan = Layout(V2Lite(), options, CommittedCpuProfile(), 64 * kGiB);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->fits);
  EXPECT_EQ(plan->FindRegion("kv_full")->bytes, 8'192 * 27 * 576 * 2);
  EXPECT_THAT(plan->FindRegion("kv_full")->formula,
              HasSubstr("f16, one row for all heads"));
}

TEST(LatentShapeTest, AFileOfTheOldFormIsRefusedWithWhatItLacks) {
  HeaderNumbers numbers = Small("deepseek2");
  numbers.header().metadata.erase("deepseek2.attention.key_length_mla");
  const auto shape = ShapeOf(numbers);
  EXPECT_TRUE(absl::IsUnimplemented(shape.status())) << shape.status();
  const std::string message(shape.status().message());
  EXPECT_THAT(message, HasSubstr("deepseek2.attention.key_length_mla"));
  EXPECT_THAT(message, HasSubstr("attn_kv_b"));
  EXPECT_THAT(message, HasSubstr("attn_k_b and attn_v_b"));
}

TEST(LatentShapeTest, ATensorOfTheOldFormIsRefused) {
  HeaderNumbers numbers = Small("deepseek2");
  GgufHeader& header = numbers.header();
  ASSERT_TRUE(
      AddTensors(header, {DType::kF32, DType::kF32, DType::kF32}, true).ok());
  for (GgufTensor& tensor : header.tensors) {
    if (tensor.name == "blk.2.attn_k_b.weight") {
      tensor.name = "blk.2.attn_kv_b.weight";
    }
  }
  const auto shape = ShapeFromGguf(header);
  EXPECT_TRUE(absl::IsInvalidArgument(shape.status())) << shape.status();
  EXPECT_THAT(std::string(shape.status().message()), HasSubstr("attn_kv_b"));
}

TEST(LatentShapeTest, RowsUpToTheirLimitsAndNotPastThem) {
  for (const auto& [rank, n_rot] :
       {std::pair<uint64_t, uint64_t>{512, 64}, {32, 544}, {32, 16}}) {
    const auto shape = ShapeOf(WithRow(rank, n_rot));
    EXPECT_TRUE(shape.ok()) << shape.status();
  }
  ExpectInvalid(WithRow(512, 80), "rope.dimension_count");
  ExpectInvalid(WithRow(544, 16), "kv_lora_rank");
  ExpectInvalid(WithRow(48, 16), "kv_lora_rank\" is 48, not a multiple of 32");
  ExpectInvalid(WithRow(32, 24),
                "rope.dimension_count\" is 24, not a multiple");
  ExpectInvalid(WithRow(0, 16), "kv_lora_rank");
  ExpectInvalid(WithRow(32, 0), "rope.dimension_count");
}

TEST(LatentShapeTest, NumbersThatContradictEachOtherAreNamed) {
  const struct {
    const char* key;
    uint64_t value;
  } cases[] = {
      {"attention.key_length", 64},      {"attention.value_length", 48},
      {"attention.head_count_kv", 4},    {"attention.key_length_mla", 16},
      {"attention.value_length_mla", 0}, {"attention.head_count", 32'768}};
  for (const auto& c : cases) {
    ExpectInvalid(Small("deepseek2").Int(c.key, c.value), c.key);
  }
}

}  // namespace
}  // namespace plimsoll::planner
