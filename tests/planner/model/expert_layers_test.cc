// Layers with experts: their tensors, which layers have them, and bad ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "planner/fleet/bounds.h"
#include "planner/model/model_shape.h"
#include "tests/planner/model/small_models.h"

namespace plimsoll::planner {
namespace {

using ::testing::ElementsAre;

TEST(ExpertLayersTest, ExpertsTakeThePlaceOfTheFfnOrStandBesideIt) {
  for (const char* architecture : {"qwen3moe", "gpt-oss", "llama"}) {
    HeaderNumbers numbers = Small(architecture);
    numbers.Int("expert_count", 8)
        .Int("expert_used_count", 2)
        .Int("expert_feed_forward_length", 32);
    const auto shape = ShapeOf(numbers);
    ASSERT_TRUE(shape.ok()) << architecture << ": " << shape.status();
    EXPECT_EQ(shape->layers[0].ffn_dim, 0);
    EXPECT_EQ(shape->layers[0].expert_ffn_dim, 32);
    EXPECT_FALSE(HasTensor(*shape, "blk.0.ffn_gate.weight"));
    const auto experts = std::find_if(
        shape->weights.begin(), shape->weights.end(), [](const auto& tensor) {
          return tensor.name == "blk.0.ffn_down_exps.weight";
        });
    ASSERT_NE(experts, shape->weights.end());
    EXPECT_EQ(experts->kind, WeightKind::kExpert);
    EXPECT_EQ(experts->dtype, DType::kQ4_0);
    EXPECT_EQ(experts->n_matrices, 8);
    EXPECT_EQ(experts->rows, 64);
    EXPECT_EQ(experts->file_bytes, 8 * 64 * 18);
  }
  HeaderNumbers beside = Small("gemma4");
  beside.Int("expert_count", 8)
      .Int("expert_used_count", 2)
      .Int("attention.sliding_window_pattern", 6);
  const auto shape = ShapeOf(beside);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->layers[0].ffn_dim, 96);
  EXPECT_EQ(shape->layers[0].expert_ffn_dim, 96);  // where no key says it
  EXPECT_TRUE(HasTensor(*shape, "blk.0.pre_ffw_norm_2.weight"));
}

TEST(ExpertLayersTest, EveryLayerOfAPeriodMayHaveThem) {
  const auto expert_layers = [](uint64_t period, uint64_t n_dense) {
    HeaderNumbers numbers = Small("llama4");
    numbers.Int("expert_count", 8)
        .Int("expert_used_count", 1)
        .Int("expert_feed_forward_length", 32)
        .Int("leading_dense_block_count", n_dense)
        .Int("interleave_moe_layer_step", period);
    const auto shape = ShapeOf(numbers);
    EXPECT_TRUE(shape.ok()) << shape.status();
    std::vector<size_t> found;
    for (size_t il = 0; il < shape->layers.size(); ++il) {
      if (shape->layers[il].expert_ffn_dim > 0) found.push_back(il);
    }
    return found;
  };
  EXPECT_THAT(expert_layers(1, 0), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(expert_layers(2, 0), ElementsAre(1, 3, 5));
  EXPECT_THAT(expert_layers(2, 2), ElementsAre(3, 5));
  EXPECT_THAT(expert_layers(ModelShape::kMaxLayers, 0), ElementsAre());
  ExpectInvalid(Small("llama4")
                    .Int("expert_count", 8)
                    .Int("expert_used_count", 1)
                    .Int("interleave_moe_layer_step",
                         static_cast<uint64_t>(ModelShape::kMaxLayers) + 1),
                "llama4.interleave_moe_layer_step");
}

TEST(ExpertLayersTest, TheSharedExpertMayDependOnTheFile) {
  const auto shared_width = [](const char* key, uint64_t value) {
    HeaderNumbers numbers = Small("granitemoe");
    numbers.Int("expert_count", 8)
        .Int("expert_used_count", 2)
        .Int("expert_feed_forward_length", 32)
        .Int(key, value);
    const auto shape = ShapeOf(numbers);
    EXPECT_TRUE(shape.ok()) << shape.status();
    EXPECT_EQ(HasTensor(*shape, "blk.0.ffn_up_shexp.weight"),
              shape->layers[0].shared_ffn_dim > 0);
    return shape->layers[0].shared_ffn_dim;
  };
  EXPECT_EQ(shared_width("expert_shared_count", 0), 0);
  EXPECT_EQ(shared_width("expert_shared_count", 2), 64);
  EXPECT_EQ(shared_width("expert_shared_feed_forward_length", 48), 48);
}

TEST(ExpertLayersTest, BiasesOfExpertsAreAVectorOfEachExpert) {
  HeaderNumbers numbers = Small("gpt-oss");
  numbers.Int("expert_count", 8)
      .Int("expert_used_count", 2)
      .Int("expert_feed_forward_length", 32);
  GgufHeader& header = numbers.header();
  ASSERT_TRUE(
      AddTensors(header, {DType::kQ8_0, DType::kQ8_0, DType::kQ4_0}, true)
          .ok());
  const std::string name = "blk.5.ffn_gate_exps.bias";
  const auto in_file = std::find_if(
      header.tensors.begin(), header.tensors.end(),
      [&](const GgufTensor& tensor) { return tensor.name == name; });
  ASSERT_NE(in_file, header.tensors.end());
  EXPECT_EQ(in_file->n_dims, 2);
  EXPECT_THAT(in_file->ne, ElementsAre(32, 8, 1, 1));
  const auto shape = ShapeFromGguf(header);
  ASSERT_TRUE(shape.ok()) << shape.status();
  const auto bias = std::find_if(
      shape->weights.begin(), shape->weights.end(),
      [&](const WeightTensor& tensor) { return tensor.name == name; });
  ASSERT_NE(bias, shape->weights.end());
  EXPECT_TRUE(bias->is_vector);
  EXPECT_EQ(bias->kind, WeightKind::kExpert);
  EXPECT_EQ(bias->dtype, DType::kF32);
  EXPECT_EQ(bias->cols, 32);
  EXPECT_EQ(bias->rows, 1);
  EXPECT_EQ(bias->n_matrices, 8);
  EXPECT_EQ(bias->file_bytes, 8 * 32 * 4);
  in_file->dtype = DType::kQ4_0;
  EXPECT_TRUE(absl::IsInvalidArgument(ShapeFromGguf(header).status()));
  in_file->dtype = DType::kF32;
  in_file->ne = {32, 1, 8, 1};
  EXPECT_TRUE(absl::IsInvalidArgument(ShapeFromGguf(header).status()));
}

TEST(ExpertLayersTest, OneExpertMayBeSharedByAllRows) {
  HeaderNumbers numbers = Small("qwen2moe");
  numbers.Int("expert_count", 8)
      .Int("expert_used_count", 2)
      .Int("expert_feed_forward_length", 32);
  ExpectInvalid(numbers, "qwen2moe.expert_shared_feed_forward_length");
  numbers.Int("expert_shared_feed_forward_length", 160);
  const auto shape = ShapeOf(numbers);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->layers[0].shared_ffn_dim, 160);
  const auto down = std::find_if(
      shape->weights.begin(), shape->weights.end(), [](const auto& tensor) {
        return tensor.name == "blk.0.ffn_down_shexp.weight";
      });
  ASSERT_NE(down, shape->weights.end());
  EXPECT_EQ(down->kind, WeightKind::kDense);
  EXPECT_EQ(down->cols, 160);
  EXPECT_TRUE(HasTensor(*shape, "blk.0.ffn_gate_inp_shexp.weight"));
  const auto other = ShapeOf(
      Small("qwen3moe").Int("expert_count", 8).Int("expert_used_count", 2));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->layers[0].shared_ffn_dim, 0);
  EXPECT_FALSE(HasTensor(*other, "blk.0.ffn_down_shexp.weight"));
}

TEST(ExpertLayersTest, ExpertsNeedToBeUsed) {
  ExpectInvalid(Small("qwen3moe").Int("expert_count", 8),
                "qwen3moe.expert_used_count\" is missing");
  ExpectInvalid(
      Small("qwen3moe").Int("expert_count", 8).Int("expert_used_count", 9),
      "qwen3moe.expert_used_count");
  ExpectInvalid(
      Small("qwen3moe").Int("expert_count", ModelShape::kMaxExperts + 1),
      "qwen3moe.expert_count");
  EXPECT_TRUE(ShapeOf(Small("qwen3moe")
                          .Int("expert_count", ModelShape::kMaxExperts)
                          .Int("expert_used_count", 1))
                  .ok());
}

TEST(ExpertLayersTest, LayersWithoutARouterAreDense) {
  GgufHeader dense = Small("llama").header();
  HeaderNumbers numbers = Small("llama");
  numbers.Int("expert_count", 8).Int("expert_used_count", 2);
  GgufHeader header = numbers.header();
  for (GgufHeader* one : {&dense, &header}) {
    ASSERT_TRUE(
        AddTensors(*one, {DType::kF16, DType::kF16, DType::kF16}, true).ok());
  }
  const auto is_ffn_of_the_first = [](const GgufTensor& tensor) {
    return absl::StartsWith(tensor.name, "blk.0.ffn_") &&
           tensor.name != "blk.0.ffn_norm.weight";
  };
  std::erase_if(header.tensors, is_ffn_of_the_first);
  std::copy_if(dense.tensors.begin(), dense.tensors.end(),
               std::back_inserter(header.tensors), is_ffn_of_the_first);
  const auto shape = ShapeFromGguf(header);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->layers[0].ffn_dim, 96);
  EXPECT_EQ(shape->layers[0].expert_ffn_dim, 0);
  EXPECT_EQ(shape->layers[1].ffn_dim, 0);
  EXPECT_EQ(shape->layers[1].expert_ffn_dim, 96);
}

TEST(ExpertLayersTest, TheFirstLayersMayBeDense) {
  HeaderNumbers numbers = Small("glm4moe");
  numbers.Int("expert_count", 8)
      .Int("expert_used_count", 2)
      .Int("expert_feed_forward_length", 32)
      .Int("expert_shared_count", 2)
      .Int("leading_dense_block_count", 1);
  const auto shape = ShapeOf(numbers);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->layers[0].ffn, FfnKind::kGated);
  EXPECT_EQ(shape->layers[1].ffn, FfnKind::kExperts);
  EXPECT_EQ(shape->layers[1].shared_ffn_dim, 64);
  EXPECT_FALSE(HasTensor(*shape, "blk.0.ffn_gate_inp.weight"));
  EXPECT_TRUE(HasTensor(*shape, "blk.1.exp_probs_b.bias"));
  EXPECT_TRUE(HasTensor(*shape, "blk.1.ffn_up_shexp.weight"));
  EXPECT_FALSE(HasTensor(*shape, "blk.1.ffn_gate_inp_shexp.weight"));
}

TEST(ExpertLayersTest, LayersForDraftsAreLeftOut) {
  HeaderNumbers numbers = Small("glm4moe");
  GgufHeader& header = numbers.header();
  ASSERT_TRUE(
      AddTensors(header, {DType::kF16, DType::kF16, DType::kF16}, true).ok());
  const auto plain = ShapeFromGguf(header);
  ASSERT_TRUE(plain.ok()) << plain.status();
  GgufTensor draft = header.tensors.back();
  draft.name = absl::StrCat("blk.", plain->n_layers, ".nextn.other.weight");
  header.tensors.push_back(draft);
  EXPECT_FALSE(ShapeFromGguf(header).ok());
  numbers.Int("block_count", static_cast<uint64_t>(plain->n_layers + 1))
      .Int("nextn_predict_layers", 1);
  const auto shape = ShapeFromGguf(header);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->n_layers, plain->n_layers);
  EXPECT_EQ(shape->weights.size(), plain->weights.size());
}

TEST(ExpertLayersTest, ExpertsMayHaveGateAndUpInOne) {
  HeaderNumbers numbers = Small("llama");
  numbers.Int("expert_count", 8).Int("expert_used_count", 2);
  GgufHeader& header = numbers.header();
  ASSERT_TRUE(
      AddTensors(header, {DType::kF16, DType::kF16, DType::kF16}, true).ok());
  const auto apart = ShapeFromGguf(header);
  ASSERT_TRUE(apart.ok()) << apart.status();
  std::erase_if(header.tensors, [](const GgufTensor& tensor) {
    return absl::EndsWith(tensor.name, ".ffn_up_exps.weight");
  });
  for (GgufTensor& tensor : header.tensors) {
    if (!absl::EndsWith(tensor.name, ".ffn_gate_exps.weight")) continue;
    tensor.name = absl::StrReplaceAll(tensor.name, {{"_gate_", "_gate_up_"}});
    tensor.ne[1] *= 2;
    tensor.bytes *= 2;
  }
  const auto fused = ShapeFromGguf(header);
  ASSERT_TRUE(fused.ok()) << fused.status();
  EXPECT_EQ(fused->weights.size(), apart->weights.size());
  EXPECT_EQ(*WeightBytesPerStep(*fused), *WeightBytesPerStep(*apart));
  // Each expert's gate lies before its up.
  const auto find = [&](absl::string_view name) {
    return std::ranges::find(fused->weights, name, &WeightTensor::name);
  };
  const auto gate = find("blk.1.ffn_gate_exps.weight");
  const auto up = find("blk.1.ffn_up_exps.weight");
  ASSERT_NE(gate, fused->weights.end());
  ASSERT_NE(up, fused->weights.end());
  const int64_t bytes = gate->rows * gate->cols * 2;  // one expert's gate
  EXPECT_EQ(gate->n_matrices, 8);
  EXPECT_EQ(gate->file_bytes, 8 * bytes);
  EXPECT_EQ(gate->file_stride, 2 * bytes);
  EXPECT_EQ(up->file_offset, gate->file_offset + bytes);
  EXPECT_EQ(up->file_stride, 2 * bytes);
}

}  // namespace
}  // namespace plimsoll::planner
