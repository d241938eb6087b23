// What a model computes with, from a config.json: values and the rotation.
#include "services/sources/config_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/json.h"
#include "services/sources/config_json.h"
#include "tests/services/json_object.h"

namespace plimsoll::services {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A config of such a model. Here and below, `more` is an object whose members
// are added.
std::string Config(const std::string& type, const std::string& more) {
  auto config = testing::WithMembers(
      R"({"hidden_size": 64, "num_hidden_layers": 4, "intermediate_size": 96,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
          "vocab_size": 40, "max_position_embeddings": 256,
          "rms_norm_eps": 1e-5})",
      more);
  config["model_type"] = type;
  return config.dump();
}

ModelConfig Read(const std::string& type, const std::string& more) {
  auto config = ModelFromConfig(Config(type, more));
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *std::move(config) : ModelConfig{};
}

double Number(const ModelConfig& config, const std::string& key) {
  const auto value = config.header.Float(key);
  EXPECT_TRUE(value.ok() && value->has_value()) << key;
  return value.ok() ? value->value_or(NAN) : NAN;
}

bool Has(const ModelConfig& config, const std::string& key) {
  return config.header.metadata.contains(key);
}

void ExpectError(absl::StatusCode code, const std::string& type,
                 const std::string& more, const std::string& words) {
  const auto config = ModelFromConfig(Config(type, more));
  EXPECT_EQ(config.status().code(), code) << config.status();
  EXPECT_THAT(std::string(config.status().message()), HasSubstr(words));
}

void ExpectInvalid(const std::string& type, const std::string& more,
                   const std::string& words) {
  ExpectError(absl::StatusCode::kInvalidArgument, type, more, words);
}

void ExpectUnimplemented(const std::string& type, const std::string& more,
                         const std::string& words) {
  ExpectError(absl::StatusCode::kUnimplemented, type, more, words);
}

std::string Theta(const std::string& more) {
  return testing::WithMembers(R"({"rope_theta": 5e5})", more).dump();
}

std::string Scaling(const std::string& scaling) {
  auto members = nlohmann::ordered_json::parse(Theta("{}"));
  members["rope_scaling"] = nlohmann::ordered_json::parse(scaling);
  return members.dump();
}

TEST(ConfigValuesTest, ReadsTheEpsilonAndTheBase) {
  const ModelConfig config = Read("llama", Theta("{}"));
  EXPECT_EQ(Number(config, "llama.attention.layer_norm_rms_epsilon"), 1e-5);
  EXPECT_FALSE(Has(config, "llama.attention.layer_norm_epsilon"));
  EXPECT_EQ(Number(config, "llama.rope.freq_base"), 5e5);
  EXPECT_EQ(*config.header.Int("llama.rope.dimension_count"), 16);
  EXPECT_THAT(config.vectors, IsEmpty());
  EXPECT_FALSE(config.is_tied);
  ExpectInvalid("llama", "{}", "rope_theta");
}

TEST(ConfigValuesTest, ACapThatIsNullIsNone) {
  const std::string more =
      Theta(R"({"sliding_window": 8, "attn_logit_softcapping": null,
               "final_logit_softcapping": 30})");
  const ModelConfig gemma2 = Read("gemma2", more);
  EXPECT_EQ(Number(gemma2, "gemma2.attn_logit_softcapping"), 0);
  EXPECT_EQ(Number(gemma2, "gemma2.final_logit_softcapping"), 30);
  EXPECT_FALSE(
      Has(Read("gemma2", Theta("{}")), "gemma2.attn_logit_softcapping"));
  EXPECT_FALSE(Has(Read("llama", more), "llama.attn_logit_softcapping"));
}

TEST(ConfigValuesTest, ReadsGranitesScales) {
  const ModelConfig config =
      Read("granite", Theta(R"({"embedding_multiplier": 12,
      "attention_multiplier": 0.125, "residual_multiplier": 0.25,
      "logits_scaling": 8})"));
  EXPECT_EQ(Number(config, "granite.embedding_scale"), 12);
  EXPECT_EQ(Number(config, "granite.attention.scale"), 0.125);
  EXPECT_EQ(Number(config, "granite.residual_scale"), 0.25);
  EXPECT_EQ(Number(config, "granite.logit_scale"), 8);
}

TEST(ConfigValuesTest, ReadsCoheresNormAndItsScaleOfLogits) {
  const std::string norm = Theta(R"({"layer_norm_eps": 1e-4})");
  const std::string scale =
      testing::WithMembers(norm,
                           R"({"sliding_window": 8, "logit_scale": 0.25})")
          .dump();
  const ModelConfig config = Read("cohere2", scale);
  EXPECT_EQ(Number(config, "cohere2.attention.layer_norm_epsilon"), 1e-4);
  EXPECT_EQ(Number(config, "cohere2.logit_scale"), 0.25);
  EXPECT_FALSE(Has(config, "cohere2.attention.layer_norm_rms_epsilon"));
  EXPECT_TRUE(config.is_tied);
  ExpectInvalid("cohere2", Theta("{}"), "layer_norm_eps");
  ExpectInvalid("cohere2", norm, "logit_scale");
}

TEST(ConfigValuesTest, WhatDecidesWhichLayersRotateMustBeThere) {
  const ModelConfig windows =
      Read("exaone4", Theta(R"({"sliding_window": 8})"));
  EXPECT_EQ(*windows.header.Int("exaone4.attention.sliding_window"), 8);
  EXPECT_FALSE(Has(Read("exaone4", Theta(R"({"sliding_window": null})")),
                   "exaone4.attention.sliding_window"));
  ExpectInvalid("exaone4", Theta("{}"), "sliding_window");
}

TEST(ConfigValuesTest, ValuesThatAFileCannotSayAreRefused) {
  const auto refuse = [](const std::string& type, const std::string& member,
                         const std::string& words) {
    ExpectUnimplemented(type, Theta(member), words);
  };
  refuse("llama", R"({"hidden_act": "relu"})", "hidden_act");
  refuse("gemma2", R"({"hidden_activation": "silu"})", "hidden_activation");
  refuse("gemma3", R"({"query_pre_attn_scalar": 24})", "query_pre_attn_scalar");
  refuse("qwen2", R"({"use_sliding_window": true})", "use_sliding_window");
  refuse("smollm3", R"({"no_rope_layers": [1, 1, 0, 1]})", "no_rope_layers");
  refuse("llama", R"({"no_rope_layers": [1, 1, 1, 0]})", "no_rope_layers");
  Read("smollm3", Theta(R"({"no_rope_layers": [1, 1, 1, 0]})"));
  Read("gemma3", Theta(R"({"query_pre_attn_scalar": 16})"));
  Read("qwen2", Theta(R"({"use_sliding_window": false})"));
}

TEST(ConfigValuesTest, Gemma3HasTheValuesThatItsConfigsLeaveOut) {
  const auto config = ModelFromConfig(R"({"model_type": "gemma3",
    "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
    "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(Number(*config, "gemma3.rope.freq_base"), 1e6);
  EXPECT_EQ(Number(*config, "gemma3.rope.freq_base_swa"), 1e4);
  EXPECT_EQ(Number(*config, "gemma3.rope.scaling.factor"), 8);
  EXPECT_EQ(*config->header.Int("gemma3.attention.head_count"), 8);
  EXPECT_EQ(*config->header.Int("gemma3.attention.sliding_window"), 1'024);
  EXPECT_TRUE(config->is_tied);
}

TEST(ConfigRotationTest, ReadsLinearScaling) {
  const ModelConfig config =
      Read("gemma3", Scaling(R"({"rope_type": "linear", "factor": 8})"));
  EXPECT_EQ(*config.header.String("gemma3.rope.scaling.type"), "linear");
  EXPECT_EQ(Number(config, "gemma3.rope.scaling.factor"), 8);
  ExpectInvalid("gemma3", Scaling(R"({"rope_type": "linear"})"), "factor");
}

TEST(ConfigRotationTest, ReadsYarn) {
  const ModelConfig config =
      Read("llama", Scaling(R"({"type": "yarn", "factor": 4, "beta_fast": 16,
                          "original_max_position_embeddings": 64,
                          "attention_factor": 1.138629})"));
  EXPECT_EQ(*config.header.String("llama.rope.scaling.type"), "yarn");
  EXPECT_EQ(Number(config, "llama.rope.scaling.factor"), 4);
  EXPECT_EQ(Number(config, "llama.rope.scaling.yarn_beta_fast"), 16);
  EXPECT_FALSE(Has(config, "llama.rope.scaling.yarn_beta_slow"));
  EXPECT_EQ(*config.header.Int("llama.rope.scaling.original_context_length"),
            64);
  for (const char* odd :
       {R"({"attention_factor": 2})", R"({"mscale": 1})",
        R"({"mscale_all_dim": 1})", R"({"truncate": false})"}) {
    const auto scaling =
        testing::WithMembers(R"({"type": "yarn", "factor": 4})", odd);
    ExpectUnimplemented("llama", Scaling(scaling.dump()), "yarn");
  }
}

// The rotation of Ministral 3.
std::string GrowingYarn(const std::string& more) {
  nlohmann::ordered_json members;
  members["rope_parameters"] =
      testing::WithMembers(R"({"rope_type": "yarn", "factor": 16,
          "rope_theta": 1e6, "original_max_position_embeddings": 64})",
                           more);
  return members.dump();
}

TEST(ConfigRotationTest, YarnMayHaveADivisorAndQueriesMayGrow) {
  const ModelConfig config =
      Read("ministral3", GrowingYarn(R"({"mscale": 1, "mscale_all_dim": 0.5,
                                   "llama_4_scaling_beta": 0.25})"));
  EXPECT_EQ(Number(config, "mistral3.rope.scaling.yarn_log_multiplier"), 0.5);
  EXPECT_EQ(Number(config, "mistral3.attention.temperature_scale"), 0.25);
  EXPECT_EQ(*config.header.Int("mistral3.rope.scaling.original_context_length"),
            64);
  const ModelConfig plain =
      Read("ministral3", GrowingYarn(R"({"llama_4_scaling_beta": 0})"));
  EXPECT_FALSE(Has(plain, "mistral3.rope.scaling.yarn_log_multiplier"));
  EXPECT_FALSE(Has(plain, "mistral3.attention.temperature_scale"));
}

TEST(ConfigRotationTest, MagnitudesAndGrowthThatAFileCannotSayAreRefused) {
  for (const char* odd :
       {R"({"mscale": 0.5, "mscale_all_dim": 1})", R"({"mscale_all_dim": 1})",
        R"({"mscale": 1, "mscale_all_dim": -1})",
        // The usual one is 1, as both are.
        R"({"mscale": 1, "mscale_all_dim": 1, "attention_factor": 1.2})"}) {
    ExpectUnimplemented("ministral3", GrowingYarn(odd), "yarn");
  }
  Read("ministral3", GrowingYarn(R"({"mscale": 1, "mscale_all_dim": 1,
                                    "attention_factor": 1})"));
  ExpectUnimplemented("llama", GrowingYarn(R"({"llama_4_scaling_beta": 0.1})"),
                      "llama_4_scaling_beta");
  ExpectInvalid("ministral3", GrowingYarn(R"({"llama_4_scaling_beta": -0.1})"),
                "llama_4_scaling_beta");
}

TEST(ConfigRotationTest, Llama3ScalesSlowPairsOnly) {
  const ModelConfig config =
      Read("llama", Scaling(R"({"rope_type": "llama3", "factor": 8,
                          "low_freq_factor": 1, "high_freq_factor": 4,
                          "original_max_position_embeddings": 64})"));
  ASSERT_THAT(config.vectors, SizeIs(1));
  EXPECT_EQ(config.vectors[0].name, "rope_freqs.weight");
  const std::vector<float>& divisors = config.vectors[0].values;
  ASSERT_THAT(divisors, SizeIs(8));
  EXPECT_EQ(divisors[0], 1);
  // Waves of 32.4 and 167 positions lie between 16 and 64, and above 64.
  EXPECT_GT(divisors[1], 1);
  EXPECT_LT(divisors[1], 8);
  EXPECT_EQ(divisors[2], 8);
  EXPECT_EQ(divisors[7], 8);
  ExpectInvalid("llama", Scaling(R"({"rope_type": "llama3", "factor": 8,
                "low_freq_factor": 4, "high_freq_factor": 4,
                "original_max_position_embeddings": 64})"),
                "make no sense");
}

TEST(ConfigRotationTest, LongRopeHasTwoSets) {
  const std::string lists =
      R"({"type": "longrope", "short_factor": [1, 1, 1, 1, 1, 1, 1, 1],
         "long_factor": [2, 2, 2, 2, 2, 2, 2, 2]})";
  const ModelConfig config = Read(
      "phi3", testing::WithMembers(
                  Scaling(lists), R"({"original_max_position_embeddings": 64})")
                  .dump());
  ASSERT_THAT(config.vectors, SizeIs(2));
  EXPECT_EQ(config.vectors[0].name, "rope_factors_long.weight");
  EXPECT_THAT(config.vectors[0].values, Each(2));
  EXPECT_THAT(config.vectors[1].values, Each(1));
  EXPECT_NEAR(Number(config, "phi3.rope.scaling.attn_factor"),
              std::sqrt(1 + std::log(4) / std::log(64)), 1e-7);
  ExpectInvalid("phi3", Scaling(R"({"type": "longrope", "long_factor": [1]})"),
                "long_factor");
  ExpectUnimplemented(
      "phi3",
      Scaling(testing::WithMembers(lists, R"({"short_mscale": 1})").dump()),
      "short_mscale");
}

TEST(ConfigRotationTest, NewerConfigsHaveAllInOnePlace) {
  const ModelConfig llama =
      Read("llama", R"({"rope_parameters": {"rope_type": "linear", "factor": 2,
                  "rope_theta": 7e5}})");
  EXPECT_EQ(Number(llama, "llama.rope.freq_base"), 7e5);
  EXPECT_EQ(Number(llama, "llama.rope.scaling.factor"), 2);
  const ModelConfig gemma3 = Read("gemma3", R"({"rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 3e6},
      "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}}})");
  EXPECT_EQ(Number(gemma3, "gemma3.rope.freq_base"), 3e6);
  EXPECT_EQ(Number(gemma3, "gemma3.rope.freq_base_swa"), 2e4);
  EXPECT_EQ(Number(gemma3, "gemma3.rope.scaling.factor"), 8);
}

TEST(ConfigRotationTest, PartOfAHeadMayRotate) {
  const auto with = [](const nlohmann::json& factor) {
    return Theta(nlohmann::json{{"partial_rotary_factor", factor}}.dump());
  };
  const auto rotated = [&](const nlohmann::json& factor) {
    const ModelConfig config = Read("glm4", with(factor));
    return config.header.Int("glm4.rope.dimension_count")->value_or(0);
  };
  EXPECT_EQ(rotated(0.5), 8);
  EXPECT_EQ(rotated(1), 16);
  for (const nlohmann::json& odd : nlohmann::json::parse("[0, 1.01, -1]")) {
    ExpectInvalid("glm4", with(odd), "partial_rotary_factor");
  }
}

TEST(ConfigRotationTest, OtherKindsAreNamed) {
  ExpectUnimplemented("llama", Scaling(R"({"type": "dynamic", "factor": 2})"),
                      "\"dynamic\"");
  Read("llama", Scaling(R"({"rope_type": "default"})"));
}

}  // namespace
}  // namespace plimsoll::services
