// Models from a config.json, and configs that make no sense.
#include "services/sources/config_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "planner/model/model_shape.h"
#include "services/sources/header_bytes.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

constexpr char kQwen3[] = R"({
  "model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36,
  "intermediate_size": 12288, "num_attention_heads": 32,
  "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
  "max_position_embeddings": 40960, "tie_word_embeddings": false,
  "sliding_window": null, "rope_scaling": null, "torch_dtype": "bfloat16"})";

absl::StatusOr<planner::ModelShape> ShapeOf(const std::string& json) {
  const auto header = HeaderFromConfig(json);
  if (!header.ok()) return header.status();
  return planner::ShapeFromGguf(*header);
}

// kQwen3 with `from` replaced.
std::string With(const std::string& from, const std::string& to) {
  std::string json = kQwen3;
  const size_t at = json.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return json.replace(at, from.size(), to);
}

void ExpectInvalid(const std::string& json, const std::string& words) {
  const auto shape = ShapeOf(json);
  EXPECT_TRUE(absl::IsInvalidArgument(shape.status())) << shape.status();
  EXPECT_THAT(std::string(shape.status().message()), HasSubstr(words));
}

TEST(ConfigJsonTest, ReadsADenseModel) {
  const auto shape = ShapeOf(kQwen3);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->architecture, "qwen3");
  EXPECT_EQ(shape->n_layers, 36);
  EXPECT_EQ(shape->layers[0].n_kv_heads, 8);
  EXPECT_EQ(shape->layers[0].head_dim, 128);
  EXPECT_EQ(shape->n_ctx_train, 40'960);
  EXPECT_FALSE(shape->tied_output);
  int64_t n_parameters = 0;
  for (const auto& tensor : shape->weights) {
    n_parameters += tensor.cols * tensor.rows * tensor.n_matrices;
    EXPECT_EQ(tensor.dtype, tensor.is_vector ? DType::kF32 : DType::kBF16);
  }
  EXPECT_EQ(n_parameters, 8'190'735'360);  // the published number
}

TEST(ConfigJsonTest, ItsHeaderTravels) {
  const auto header = HeaderFromConfig(kQwen3);
  ASSERT_TRUE(header.ok());
  const std::string bytes = HeaderBytes(*header, {});
  const auto shape =
      ShapeFromHeaderBytes(bytes, static_cast<uint64_t>(header->file_bytes));
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->weights.size(), header->tensors.size());
}

TEST(ConfigJsonTest, ReadsTheTextPartOfAMultimodalModel) {
  const auto shape = ShapeOf(R"({
    "model_type": "gemma3", "torch_dtype": "bfloat16",
    "vision_config": {"hidden_size": 1152},
    "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
      "num_hidden_layers": 34, "intermediate_size": 10240,
      "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
      "sliding_window": 1024, "sliding_window_pattern": 6,
      "vocab_size": 262208, "max_position_embeddings": 131072}})");
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->layers[0].window, 1'024);
  EXPECT_EQ(shape->layers[5].window, 0);
  EXPECT_TRUE(shape->tied_output);
}

TEST(ConfigJsonTest, ReadsLayersWithHeadsOfTheirOwn) {
  auto config = nlohmann::json::parse(
      R"({"model_type": "gemma4_text", "hidden_size": 3840,
      "num_hidden_layers": 12, "intermediate_size": 15360,
      "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
      "global_head_dim": 512, "num_global_key_value_heads": 1,
      "sliding_window": 1024, "vocab_size": 262144,
      "max_position_embeddings": 262144})");
  for (int il = 0; il < 12; ++il) {
    config["layer_types"].push_back(il % 6 == 5 ? "full_attention"
                                                : "sliding_attention");
  }
  const auto shape = ShapeOf(config.dump());
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->layers[0].head_dim, 256);
  EXPECT_EQ(shape->layers[0].n_kv_heads, 8);
  EXPECT_EQ(shape->layers[5].head_dim, 512);
  EXPECT_EQ(shape->layers[5].n_kv_heads, 1);
}

TEST(ConfigJsonTest, ReadsLatentAttention) {
  // DeepSeek V2 Lite.
  const std::string json = R"({
    "model_type": "deepseek_v2", "hidden_size": 2048,
    "num_hidden_layers": 27, "intermediate_size": 10944,
    "moe_intermediate_size": 1408, "n_routed_experts": 64,
    "n_shared_experts": 2, "num_experts_per_tok": 6,
    "first_k_dense_replace": 1, "num_attention_heads": 16,
    "num_key_value_heads": 16, "kv_lora_rank": 512, "q_lora_rank": null,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "max_position_embeddings": 163840, "vocab_size": 102400,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16"})";
  const auto shape = ShapeOf(json);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->latent.rank, 512);
  EXPECT_EQ(shape->latent.query_rank, 0);
  EXPECT_EQ(shape->layers[0].head_dim, 576);
  EXPECT_EQ(shape->layers[0].n_kv_heads, 1);
  int64_t n_parameters = 0;
  for (const auto& tensor : shape->weights) {
    n_parameters += tensor.cols * tensor.rows * tensor.n_matrices;
  }
  EXPECT_EQ(n_parameters, 15'706'484'224);  // the published number
  for (const char* key :
       {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}) {
    std::string without = json;
    without.replace(without.find(key), 1, "_");
    ExpectInvalid(without, absl::StrCat("\"", key, "\" is missing"));
  }
}

TEST(ConfigJsonTest, ReadsExpertsInATypeOfTheirOwn) {
  const auto shape = ShapeOf(R"({
    "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 24,
    "intermediate_size": 2880, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128,
    "num_local_experts": 32, "num_experts_per_tok": 4, "vocab_size": 201088,
    "max_position_embeddings": 131072, "tie_word_embeddings": false,
    "quantization_config": {"quant_method": "mxfp4"}})");
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->n_experts, 32);
  for (const auto& tensor : shape->weights) {
    if (tensor.kind != planner::WeightKind::kExpert) continue;
    EXPECT_EQ(tensor.dtype, tensor.is_vector ? DType::kF32 : DType::kMxfp4)
        << tensor.name;
  }
}

TEST(ConfigJsonTest, ReadsTheExpertThatAllRowsHave) {
  const auto shape = ShapeOf(R"({
    "model_type": "qwen2_moe", "hidden_size": 2048, "num_hidden_layers": 24,
    "intermediate_size": 5632, "num_attention_heads": 16,
    "num_key_value_heads": 16, "num_experts": 60, "num_experts_per_tok": 4,
    "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
    "vocab_size": 151936, "max_position_embeddings": 8192,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16"})");
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->layers[0].expert_ffn_dim, 1'408);
  EXPECT_EQ(shape->layers[0].shared_ffn_dim, 5'632);
}

TEST(ConfigJsonTest, ReadsLlama4sWidthsAndChunks) {
  const auto shape = ShapeOf(R"({
    "model_type": "llama4", "text_config": {"model_type": "llama4_text",
    "hidden_size": 5120, "num_hidden_layers": 4, "intermediate_size": 8192,
    "intermediate_size_mlp": 16384, "interleave_moe_layer_step": 2,
    "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
    "num_local_experts": 16, "num_experts_per_tok": 1,
    "attention_chunk_size": 4096, "layer_types": ["chunked_attention",
    "chunked_attention", "chunked_attention", "full_attention"],
    "max_position_embeddings": 10485760, "vocab_size": 202048},
    "tie_word_embeddings": false})");
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->layers[0].window, 4'096);
  EXPECT_EQ(shape->layers[0].ffn_dim, 16'384);
  EXPECT_EQ(shape->layers[3].window, 0);
  EXPECT_EQ(shape->layers[3].expert_ffn_dim, 8'192);
  EXPECT_EQ(shape->layers[3].shared_ffn_dim, 8'192);
}

TEST(ConfigJsonTest, ReadsErniesExperts) {
  const auto shape = ShapeOf(R"({
    "model_type": "ernie4_5_moe", "hidden_size": 2560, "num_hidden_layers": 6,
    "intermediate_size": 12288, "num_attention_heads": 20,
    "num_key_value_heads": 4, "moe_num_experts": 64, "moe_k": 6,
    "moe_intermediate_size": 1536, "moe_num_shared_experts": 2,
    "moe_layer_start_index": 1, "moe_layer_interval": 2, "vocab_size": 103424,
    "max_position_embeddings": 131072})");
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->n_experts_used, 6);
  EXPECT_EQ(shape->layers[0].ffn_dim, 12'288);
  EXPECT_EQ(shape->layers[1].expert_ffn_dim, 1'536);
  EXPECT_EQ(shape->layers[1].shared_ffn_dim, 3'072);
  EXPECT_EQ(shape->layers[2].expert_ffn_dim, 0);
}

TEST(ConfigJsonTest, ReadsAPeriodOfLayersAsLetters) {
  const auto with = [](const std::string& pattern) {
    auto config = nlohmann::json::parse(R"({
      "model_type": "exaone4", "hidden_size": 5120, "num_hidden_layers": 8,
      "intermediate_size": 27392, "num_attention_heads": 40,
      "num_key_value_heads": 8, "head_dim": 128, "sliding_window": 4096,
      "vocab_size": 102400, "max_position_embeddings": 131072,
      "tie_word_embeddings": false})");
    config["sliding_window_pattern"] = pattern;
    return config.dump();
  };
  const auto shape = ShapeOf(with("LG"));
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->layers[0].window, 4'096);
  EXPECT_EQ(shape->layers[1].window, 0);
  EXPECT_EQ(shape->layers[2].window, 4'096);
  for (const char* bad : {"", "LLL", "GLG", "LGL"}) {
    ExpectInvalid(with(bad), "sliding_window_pattern");
  }
}

TEST(ConfigJsonTest, ElementTypesAreThoseOfTheConfig) {
  const auto type = [](const std::string& name) {
    const auto shape = ShapeOf(With("bfloat16", name));
    EXPECT_TRUE(shape.ok()) << shape.status();
    return shape->weights.front().dtype;
  };
  EXPECT_EQ(type("float16"), DType::kF16);
  EXPECT_EQ(type("float32"), DType::kF32);
}

TEST(ConfigJsonTest, WhatIsNotKnownIsNamed) {
  const auto model = ShapeOf(With("qwen3", "mamba"));
  EXPECT_TRUE(absl::IsUnimplemented(model.status()));
  EXPECT_THAT(std::string(model.status().message()), HasSubstr("\"mamba\""));
  const auto quantised =
      ShapeOf(With("\"sliding_window\": null",
                   "\"quantization_config\": {\"quant_method\": \"awq\"}"));
  EXPECT_TRUE(absl::IsUnimplemented(quantised.status()));
  EXPECT_THAT(std::string(quantised.status().message()), HasSubstr("\"awq\""));
}

TEST(ConfigJsonTest, WrongValuesAreNamed) {
  ExpectInvalid("", "not a JSON object");
  ExpectInvalid("[1]", "not a JSON object");
  ExpectInvalid("{}", "model_type");
  ExpectInvalid(With("4096", "-1"), "hidden_size");
  ExpectInvalid(With("4096", "1.5"), "hidden_size");
  ExpectInvalid(With("4096", "1e300"), "hidden_size");
  ExpectInvalid(With("4096", "\"many\""), "hidden_size");
  ExpectInvalid(With("4096", "0"), "embedding_length");
  ExpectInvalid(With("4096", "[4096, -1]"), "hidden_size");
  ExpectInvalid(With("\"num_hidden_layers\": 36,", ""), "block_count");
  ExpectInvalid(
      With("qwen3", "gemma4_text\", \"global_head_dim\": 512, \"x\": \"y"),
      "sliding_window_pattern");
}

TEST(ConfigJsonTest, UpToItsLimitAndNotPastIt) {
  std::string json = kQwen3;
  json.resize(kMaxConfigBytes, ' ');
  EXPECT_TRUE(ShapeOf(json).ok());
  json.push_back(' ');
  ExpectInvalid(json, "1048577 bytes");
}

}  // namespace
}  // namespace plimsoll::services
