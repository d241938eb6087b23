// Models whose layers keep a state, from a config.json: they have the shapes of
// their GGUF headers, and configs that make no sense are refused.
#include "services/sources/config_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "base/json.h"
#include "planner/layout/kv_cache_bytes.h"
#include "planner/model/model_shape.h"
#include "services/sources/config_json.h"
#include "tests/planner/known_models.h"
#include "tests/planner/recurrent_models.h"

namespace plimsoll::services {
namespace {

using nlohmann::json;
using planner::HeaderNumbers;
using planner::ModelShape;
using ::testing::HasSubstr;

absl::StatusOr<ModelShape> ShapeOf(const json& config) {
  const auto header = HeaderFromConfig(config.dump());
  if (!header.ok()) return header.status();
  return planner::ShapeFromGguf(*header);
}

// The sizes of all tensors by name.
std::map<std::string, std::tuple<int64_t, int64_t, int64_t>> SizesOf(
    const ModelShape& shape) {
  std::map<std::string, std::tuple<int64_t, int64_t, int64_t>> sizes;
  for (const planner::WeightTensor& one : shape.weights) {
    sizes[one.name] = {one.cols, one.rows, one.n_matrices};
  }
  return sizes;
}

void ExpectShapeOf(const HeaderNumbers& numbers, bool tied_output,
                   const json& config) {
  const ModelShape wanted =
      planner::ShapeWith(numbers, DType::kQ8_0, DType::kQ8_0, tied_output);
  const auto shape = ShapeOf(config);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->architecture, wanted.architecture);
  EXPECT_EQ(shape->tied_output, wanted.tied_output);
  EXPECT_EQ(SizesOf(*shape), SizesOf(wanted));
  const auto bytes = planner::KvCacheBytes(
      *shape, {.n_ctx = 4'096, .n_slots = 3, .n_idle = 2});
  const auto wanted_bytes = planner::KvCacheBytes(
      wanted, {.n_ctx = 4'096, .n_slots = 3, .n_idle = 2});
  ASSERT_TRUE(bytes.ok() && wanted_bytes.ok());
  EXPECT_EQ(bytes->full_bytes, wanted_bytes->full_bytes);
  EXPECT_EQ(bytes->all_state_bytes, wanted_bytes->all_state_bytes);
}

// The words of a list of layers, a letter each.
json Words(absl::string_view letters,
           const std::map<char, const char*>& words) {
  json list = json::array();
  for (const char letter : letters) list.push_back(words.at(letter));
  return list;
}

json Lfm2() {
  return json::parse(R"({"model_type": "lfm2", "hidden_size": 2048,
    "num_hidden_layers": 16, "num_attention_heads": 32,
    "num_key_value_heads": 8, "block_ff_dim": 12288,
    "block_auto_adjust_ff_dim": true, "block_ffn_dim_multiplier": 1.0,
    "block_multiple_of": 256, "conv_L_cache": 3,
    "full_attn_idxs": [2, 5, 8, 10, 12, 14], "vocab_size": 65536,
    "max_position_embeddings": 128000})");
}

json Qwen3Next() {
  return json::parse(R"({"model_type": "qwen3_next", "hidden_size": 2048,
    "num_hidden_layers": 48, "num_attention_heads": 16, "head_dim": 256,
    "num_key_value_heads": 2, "intermediate_size": 5120,
    "full_attention_interval": 4, "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128, "linear_num_key_heads": 16,
    "linear_num_value_heads": 32, "linear_value_head_dim": 128,
    "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
    "num_experts": 512, "num_experts_per_tok": 10, "vocab_size": 151936,
    "max_position_embeddings": 262144, "tie_word_embeddings": false})");
}

json Granite4() {
  json config = json::parse(R"({"model_type": "granitemoehybrid",
    "num_hidden_layers": 40, "mamba_d_conv": 4, "mamba_d_state": 128,
    "mamba_expand": 2, "mamba_n_groups": 1, "mamba_d_head": 64,
    "vocab_size": 100352, "max_position_embeddings": 131072,
    "tie_word_embeddings": true})");
  config["layer_types"] = Words("mmmmm*mmmmmmmmm*mmmmmmmmm*mmmmmmmmm*mmmm",
                                {{'m', "mamba"}, {'*', "attention"}});
  return config;
}

json Granite4Micro() {
  json config = Granite4();
  config.update(json::parse(R"({"hidden_size": 2048, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 1,
    "shared_intermediate_size": 8192, "num_local_experts": 0,
    "num_experts_per_tok": 0, "mamba_n_heads": 64})"));
  return config;
}

json NemotronH() {
  return json::parse(R"({"model_type": "nemotron_h", "hidden_size": 4096,
    "num_hidden_layers": 52, "num_attention_heads": 32,
    "attention_head_dim": 128, "num_key_value_heads": 8,
    "intermediate_size": 21504, "mamba_num_heads": 128, "mamba_head_dim": 64,
    "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4, "expand": 2,
    "hybrid_override_pattern":
      "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    "vocab_size": 131072, "max_position_embeddings": 131072,
    "tie_word_embeddings": false})");
}

json Nemotron3Nano() {
  json config = NemotronH();
  config.update(json::parse(R"({"hidden_size": 2688, "head_dim": 128,
    "num_key_value_heads": 2, "mamba_num_heads": 64, "n_routed_experts": 128,
    "num_experts_per_tok": 6, "n_shared_experts": 1,
    "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712,
    "hybrid_override_pattern":
      "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"})"));
  config.erase("attention_head_dim");
  return config;
}

TEST(ConfigStatesTest, ModelsHaveTheShapesOfTheirFiles) {
  ExpectShapeOf(planner::Lfm2Numbers(), true, Lfm2());
  ExpectShapeOf(planner::Qwen3NextNumbers(), false, Qwen3Next());
  ExpectShapeOf(planner::Granite4MicroNumbers(), true, Granite4Micro());
  ExpectShapeOf(planner::NemotronH8bNumbers(), false, NemotronH());
  ExpectShapeOf(planner::Nemotron3NanoNumbers(), false, Nemotron3Nano());
  json tiny = Granite4();
  tiny.update(json::parse(R"({"hidden_size": 1536, "num_attention_heads": 12,
    "num_key_value_heads": 4, "intermediate_size": 512,
    "shared_intermediate_size": 1024, "num_local_experts": 64,
    "num_experts_per_tok": 6, "mamba_n_heads": 48})"));
  ExpectShapeOf(planner::Granite4TinyNumbers(), true, tiny);
}

// Lists of layers come under several names and with several words.
TEST(ConfigStatesTest, ListsSayTheSameInOtherWords) {
  json lfm2 = Lfm2();
  lfm2.erase("full_attn_idxs");
  lfm2["layer_types"] =
      Words("cc*cc*cc*c*c*c*c", {{'c', "conv"}, {'*', "full_attention"}});
  ExpectShapeOf(planner::Lfm2Numbers(), true, lfm2);

  json qwen = Qwen3Next();
  qwen.erase("full_attention_interval");
  for (int il = 1; il <= 48; ++il) {
    qwen["layer_types"].push_back(il % 4 == 0 ? "full_attention"
                                              : "linear_attention");
  }
  ExpectShapeOf(planner::Qwen3NextNumbers(), false, qwen);

  json nemotron = Nemotron3Nano();
  nemotron["layers_block_type"] =
      Words(nemotron["hybrid_override_pattern"].get<std::string>(),
            {{'M', "mamba"}, {'*', "attention"}, {'E', "moe"}});
  nemotron.erase("hybrid_override_pattern");
  ExpectShapeOf(planner::Nemotron3NanoNumbers(), false, nemotron);
}

// Qwen 3.5 is the text part of a multimodal model.
TEST(ConfigStatesTest, ATextPartHasStates) {
  json text = Qwen3Next();
  text.update({{"model_type", "qwen3_5_moe_text"}});
  const auto shape =
      ShapeOf({{"model_type", "qwen3_5_moe"}, {"text_config", text}});
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->architecture, "qwen35moe");
  EXPECT_EQ(shape->recurrent.StateFloats(), 3 * 8'192 + 32 * 128 * 128);
}

TEST(ConfigStatesTest, WidthsMayFollowFromOthers) {
  json granite = Granite4Micro();
  granite["mamba_d_head"] = "auto";
  ExpectShapeOf(planner::Granite4MicroNumbers(), true, granite);
  granite.erase("mamba_expand");
  EXPECT_THAT(std::string(ShapeOf(granite).status().message()),
              HasSubstr("\"mamba_expand\" is missing"));

  json lfm2 = Lfm2();
  lfm2["block_auto_adjust_ff_dim"] = false;
  EXPECT_EQ(ShapeOf(lfm2)->layers[0].ffn_dim, 12'288);
  lfm2.update({{"block_auto_adjust_ff_dim", true}, {"block_ff_dim", 10'000}});
  EXPECT_EQ(ShapeOf(lfm2)->layers[0].ffn_dim, 6'912);  // 6,666 rounded up
  lfm2["block_ffn_dim_multiplier"] = 1.5;
  EXPECT_EQ(ShapeOf(lfm2)->layers[0].ffn_dim, 9'999 + 241);
}

void ExpectConfigRefused(const json& config, absl::StatusCode code,
                         const std::string& words) {
  const absl::Status status = ShapeOf(config).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(words));
}

// `config` with one field changed; null leaves it out.
json With(json config, const std::string& name, const json& value) {
  config[name] = value;
  return config;
}

TEST(ConfigStatesTest, WhatIsMissingOrWrongIsNamed) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kUnknown = absl::StatusCode::kUnimplemented;
  ExpectConfigRefused(With(Lfm2(), "full_attn_idxs", nullptr), kInvalid,
                      "\"layer_types\" is missing");
  ExpectConfigRefused(With(Lfm2(), "full_attn_idxs", {16}), kInvalid,
                      "names a layer past the last");
  ExpectConfigRefused(With(Lfm2(), "num_hidden_layers", 1e15), kInvalid,
                      "\"num_hidden_layers\" is more than 512");
  ExpectConfigRefused(With(Lfm2(), "block_multiple_of", 0), kInvalid,
                      "\"block_multiple_of\" gives no width");
  ExpectConfigRefused(With(Lfm2(), "conv_L_cache", nullptr), kInvalid,
                      "shortconv.l_cache");
  ExpectConfigRefused(With(Lfm2(), "layer_types", {"conv", "mlp"}), kInvalid,
                      "layers without a mixer");
  ExpectConfigRefused(With(Qwen3Next(), "layer_types", {"ring"}), kUnknown,
                      "a layer \"ring\"");
  ExpectConfigRefused(With(Qwen3Next(), "linear_value_head_dim", nullptr),
                      kInvalid, "\"linear_value_head_dim\" is missing");
  ExpectConfigRefused(With(Qwen3Next(), "linear_value_head_dim", 1e15),
                      kInvalid, "\"linear_value_head_dim\" is over 1048576");
  ExpectConfigRefused(With(Qwen3Next(), "linear_num_value_heads", 1e15),
                      kInvalid, "\"linear_num_value_heads\" is over 1048576");
  ExpectConfigRefused(With(NemotronH(), "num_key_value_heads", nullptr),
                      kInvalid, "\"num_key_value_heads\" is missing");
  ExpectConfigRefused(With(NemotronH(), "hybrid_override_pattern", "ME-*"),
                      kUnknown, "FFNs with experts and FFNs without");
  ExpectConfigRefused(With(Nemotron3Nano(), "moe_latent_size", 1'024), kUnknown,
                      "\"moe_latent_size\" is set");
}

// What is planned this way is not converted.
TEST(ConfigStatesTest, SuchModelsAreNotConverted) {
  const auto model = ModelFromConfig(Lfm2().dump());
  EXPECT_EQ(model.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(model.status().message()), HasSubstr("keep a state"));
}

}  // namespace
}  // namespace plimsoll::services
