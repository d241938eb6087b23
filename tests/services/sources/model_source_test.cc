// Models from a request's hyperparameters.
#include "services/sources/model_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

v1::ModelSource Llama() {
  v1::ModelSource source;
  v1::Hyperparameters& numbers = *source.mutable_hyperparameters();
  numbers.set_architecture("llama");
  numbers.set_n_layers(32);
  numbers.set_model_dim(4'096);
  numbers.set_n_heads(32);
  numbers.set_n_kv_heads(8);
  numbers.set_ffn_dim(14'336);
  numbers.set_vocab_size(128'256);
  numbers.set_n_ctx_train(131'072);
  numbers.set_weight_type(v1::ELEMENT_TYPE_Q4_0);
  numbers.set_embedding_type(v1::ELEMENT_TYPE_Q6_K);
  return source;
}

TEST(ModelSourceTest, HyperparametersMakeAModel) {
  const auto shape = ShapeFromSource(Llama());
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->layers[31].head_dim, 128);
  EXPECT_EQ(shape->layers[31].n_kv_heads, 8);
  EXPECT_EQ(shape->weights.front().dtype, DType::kQ6_K);
  EXPECT_EQ(shape->weights.back().dtype, DType::kQ4_0);
  EXPECT_FALSE(shape->tied_output);
}

TEST(ModelSourceTest, LayersMayDiffer) {
  v1::ModelSource source = Llama();
  v1::Hyperparameters& numbers = *source.mutable_hyperparameters();
  numbers.set_architecture("gemma4");
  numbers.set_n_layers(3);
  numbers.set_head_dim(512);
  numbers.set_window_head_dim(256);
  numbers.set_window(1'024);
  for (const bool slides : {true, true, false}) numbers.add_slides(slides);
  for (const uint32_t heads : {8u, 8u, 1u}) numbers.add_layer_kv_heads(heads);
  numbers.set_n_experts(16);
  numbers.set_n_experts_used(2);
  numbers.set_expert_ffn_dim(704);
  numbers.set_expert_type(v1::ELEMENT_TYPE_MXFP4);
  const auto shape = ShapeFromSource(source);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->layers[0].window, 1'024);
  EXPECT_EQ(shape->layers[0].head_dim, 256);
  EXPECT_EQ(shape->layers[2].window, 0);
  EXPECT_EQ(shape->layers[2].n_kv_heads, 1);
  EXPECT_EQ(shape->layers[2].expert_ffn_dim, 704);
}

TEST(ModelSourceTest, NumbersThatMakeNoSenseAreNamed) {
  const auto expect = [](const v1::ModelSource& source,
                         const std::string& words) {
    const auto shape = ShapeFromSource(source);
    EXPECT_TRUE(absl::IsInvalidArgument(shape.status())) << shape.status();
    EXPECT_THAT(std::string(shape.status().message()), HasSubstr(words));
  };
  v1::ModelSource source = Llama();
  source.mutable_hyperparameters()->set_n_layers(0);
  expect(source, "llama.block_count");
  source = Llama();
  source.mutable_hyperparameters()->set_n_kv_heads(7);
  expect(source, "head_count_kv");
  source = Llama();
  source.mutable_hyperparameters()->set_weight_type(
      static_cast<v1::ElementType>(999));
  expect(source, "weight_type");
  source = Llama();
  for (int i = 0; i < 513; ++i) {
    source.mutable_hyperparameters()->add_slides(true);
  }
  expect(source, "slides");
  expect({}, "source");
  source = Llama();
  source.mutable_hyperparameters()->set_architecture("");
  EXPECT_TRUE(absl::IsUnimplemented(ShapeFromSource(source).status()));
}

TEST(ModelSourceTest, AConfigIsTaken) {
  v1::ModelSource source;
  source.set_config_json("{\"model_type\": \"mamba\"}");
  EXPECT_TRUE(absl::IsUnimplemented(ShapeFromSource(source).status()));
}

}  // namespace
}  // namespace plimsoll::services
