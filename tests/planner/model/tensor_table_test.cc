// Scales of products: which ones a file may have, and whose they are.
#include "planner/model/tensor_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/planner/model/small_models.h"

namespace plimsoll::planner {
namespace {

using ::testing::HasSubstr;

GgufHeader HeaderOf(HeaderNumbers numbers) {
  EXPECT_TRUE(AddTensors(numbers.header(),
                         {DType::kQ8_0, DType::kQ8_0, DType::kQ4_0}, true)
                  .ok());
  return numbers.header();
}

GgufHeader HeaderOf(const std::string& architecture) {
  return HeaderOf(Small(architecture));
}

GgufHeader WithExperts(const std::string& architecture) {
  return HeaderOf(Small(architecture)
                      .Int("expert_count", 8)
                      .Int("expert_used_count", 2)
                      .Int("expert_feed_forward_length", 32));
}

// The shape of the model with one more vector, of `n` float32.
absl::StatusOr<ModelShape> With(GgufHeader header, const std::string& name,
                                int64_t n) {
  const GgufTensor& last = header.tensors.back();
  header.tensors.push_back({.name = name,
                            .dtype = DType::kF32,
                            .n_dims = 1,
                            .ne = {n, 1, 1, 1},
                            .offset = last.offset + last.bytes,
                            .bytes = n * 4});
  return ShapeFromGguf(header);
}

// Expects the model's last tensors to be `names`, each the whole of a vector of
// `n`.
void ExpectScales(const absl::StatusOr<ModelShape>& shape,
                  const std::vector<std::string>& names, int64_t n) {
  ASSERT_TRUE(shape.ok()) << shape.status();
  ASSERT_GE(shape->weights.size(), names.size());
  const auto first =
      shape->weights.end() - static_cast<ptrdiff_t>(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const WeightTensor& scale = *(first + static_cast<ptrdiff_t>(i));
    EXPECT_EQ(scale.name, names[i]);
    EXPECT_TRUE(scale.is_vector);
    EXPECT_EQ(scale.cols, n);
    EXPECT_EQ(scale.file_bytes, 4 * n);
    EXPECT_EQ(scale.file_offset, first->file_offset);
  }
}

TEST(TensorTableTest, AProductMayHaveAScale) {
  const GgufHeader llama = HeaderOf("llama");
  ExpectScales(With(llama, "blk.5.attn_q.scale", 1), {"blk.5.attn_q.scale"}, 1);
  const GgufHeader experts = WithExperts("qwen3moe");
  ExpectScales(With(experts, "blk.0.ffn_down_exps.scale", 8),
               {"blk.0.ffn_down_exps.scale"}, 8);
  for (const int64_t n : {1, 7, 9}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        With(experts, "blk.0.ffn_down_exps.scale", n).status()));
  }
  EXPECT_TRUE(
      absl::IsInvalidArgument(With(llama, "blk.5.attn_q.scale", 2).status()));
}

TEST(TensorTableTest, TensorsInOneHaveOneScale) {
  const GgufHeader phi3 = HeaderOf("phi3");
  ExpectScales(
      With(phi3, "blk.1.attn_qkv.scale", 1),
      {"blk.1.attn_q.scale", "blk.1.attn_k.scale", "blk.1.attn_v.scale"}, 1);
  ExpectScales(With(phi3, "blk.1.ffn_up.scale", 1),
               {"blk.1.ffn_gate.scale", "blk.1.ffn_up.scale"}, 1);
}

TEST(TensorTableTest, AScaleOfInputsIsCheckedAndIgnored) {
  const GgufHeader llama = HeaderOf("llama");
  const auto shape = With(llama, "blk.5.attn_q.input_scale", 1);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->weights.size(), llama.tensors.size());
  EXPECT_FALSE(With(llama, "blk.5.attn_q.input_scale", 2).ok());
}

TEST(TensorTableTest, WhatIsNoProductHasNoScale) {
  const GgufHeader llama = HeaderOf("llama");
  for (const char* name : {"token_embd.scale", "blk.5.attn_norm.scale",
                           "blk.6.attn_q.scale", "blk.5.attn_qkv.scale"}) {
    EXPECT_TRUE(absl::IsUnimplemented(With(llama, name, 1).status())) << name;
  }
}

TEST(TensorTableTest, AScaleNeedsItsMatrix) {
  const auto shape = With(HeaderOf("llama"), "output.scale", 1);
  EXPECT_TRUE(absl::IsInvalidArgument(shape.status()));
  EXPECT_THAT(std::string(shape.status().message()),
              HasSubstr("\"output.weight\" is missing"));
}

}  // namespace
}  // namespace plimsoll::planner
