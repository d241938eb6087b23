// The numbers of a forward pass that a file's keys give.
#include "worker/graph/graph_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "planner/gguf/header_numbers.h"
#include "planner/model/architectures.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::planner::GgufType;
using ::plimsoll::planner::GgufValue;
using ::plimsoll::planner::HeaderNumbers;
using ::testing::HasSubstr;

constexpr double kEps = 1e-6;

// A small model of an architecture, with the keys that a test adds.
class Keys {
 public:
  explicit Keys(const std::string& architecture)
      : architecture_(architecture), numbers_(architecture) {
    numbers_.Int("context_length", 4'096)
        .Int("embedding_length", 64)
        .Int("block_count", 4)
        .Int("feed_forward_length", 96)
        .Int("attention.head_count", 2)
        .Int("vocab_size", 100);
  }

  Keys& Float(const std::string& suffix, double value) {
    return Set(suffix, {GgufType::kF32, value});
  }
  Keys& Bool(const std::string& suffix, bool value) {
    return Set(suffix, {GgufType::kBool, uint64_t{value}});
  }
  Keys& Int(const std::string& suffix, uint64_t value) {
    return Set(suffix, {GgufType::kU32, value});
  }
  Keys& Floats(const std::string& suffix, const std::vector<double>& values) {
    return Set(suffix, {GgufType::kArray,
                        planner::GgufArray{.element_type = GgufType::kF32,
                                           .n = std::ssize(values),
                                           .offset = 0,
                                           .bytes = 4 * std::ssize(values),
                                           .numbers = values}});
  }
  Keys& Text(const std::string& suffix, const std::string& value) {
    return Set(suffix, {GgufType::kString, value});
  }

  // Adds a vector that the numbers alone do not imply.
  void WithTensor(const std::string& name, int64_t n) {
    vectors_.push_back({.name = name,
                        .dtype = DType::kF32,
                        .n_dims = 1,
                        .ne = {n, 1, 1, 1},
                        .offset = 0,
                        .bytes = n * 4});
  }

  absl::StatusOr<GraphParameters> Read() {
    planner::GgufHeader header = numbers_.header();
    absl::Status added = planner::AddTensors(
        header, {DType::kF32, DType::kF32, DType::kF32}, true);
    if (!added.ok()) return added;
    header.tensors.insert(header.tensors.end(), vectors_.begin(),
                          vectors_.end());
    ASSIGN_OR_RETURN(const planner::ModelShape shape,
                     planner::ShapeFromGguf(header));
    GraphInputs inputs = {};
    inputs.shape = &shape;
    return ReadParameters(*planner::FindArchitecture(architecture_), header,
                          inputs);
  }
  GraphParameters MustRead() {
    auto parameters = Read();
    EXPECT_TRUE(parameters.ok()) << parameters.status();
    return parameters.ok() ? *parameters : GraphParameters{};
  }

 private:
  Keys& Set(const std::string& suffix, GgufValue value) {
    numbers_.header().metadata[architecture_ + "." + suffix] = std::move(value);
    return *this;
  }

  std::string architecture_;
  HeaderNumbers numbers_;
  std::vector<planner::GgufTensor> vectors_;
};

void ExpectRefused(Keys keys, absl::StatusCode code, const std::string& words) {
  const auto parameters = keys.Read();
  EXPECT_EQ(parameters.status().code(), code) << parameters.status();
  EXPECT_THAT(std::string(parameters.status().message()), HasSubstr(words));
}

TEST(GraphParametersTest, ScalesOfTheFileCountForGranite) {
  const GraphParameters scaled = Keys("granite")
                                     .Float("embedding_scale", 12)
                                     .Float("attention.scale", 0.0625)
                                     .Float("residual_scale", 0.25)
                                     .Float("logit_scale", 8)
                                     .MustRead();
  EXPECT_FLOAT_EQ(scaled.embedding_scale, 48.0f);
  EXPECT_FLOAT_EQ(scaled.attention_scale, 0.0625f);
  EXPECT_FLOAT_EQ(scaled.rms_eps, 1e-6f);
  EXPECT_FLOAT_EQ(scaled.stream_eps, 16e-6f);
  EXPECT_FLOAT_EQ(scaled.output_norm_scale, 0.125f);
}

TEST(GraphParametersTest, ALogitScaleOfCohereIsAFactor) {
  const GraphParameters scaled =
      Keys("cohere2").Float("logit_scale", 0.25).MustRead();
  EXPECT_FLOAT_EQ(scaled.output_norm_scale, 0.25f);
  EXPECT_EQ(scaled.embedding_scale, 1.0f);
  EXPECT_TRUE(scaled.norms_subtract_means);
  EXPECT_EQ(Keys("cohere2").MustRead().output_norm_scale, 1.0f);
  EXPECT_FALSE(Keys("llama").MustRead().norms_subtract_means);
}

TEST(GraphParametersTest, ModelsWithoutScalesAreAsTheyWere) {
  for (Keys keys : {Keys("granite"), Keys("llama").Float("logit_scale", 8)}) {
    const GraphParameters plain = keys.MustRead();
    EXPECT_EQ(plain.embedding_scale, 1.0f);
    EXPECT_EQ(plain.attention_scale, 1.0f / std::sqrt(32.0f));
    EXPECT_EQ(plain.rms_eps, static_cast<float>(kEps));
    EXPECT_EQ(plain.stream_eps, static_cast<float>(kEps));
    EXPECT_EQ(plain.output_norm_scale, 1.0f);
  }
}

TEST(GraphParametersTest, ScalesUpToTheirLimitsAndNotPastThem) {
  for (const char* suffix : {"embedding_scale", "attention.scale",
                             "residual_scale", "logit_scale"}) {
    for (const double at : {1e6, 1e-6}) {
      EXPECT_TRUE(Keys("granite").Float(suffix, at).Read().ok()) << at;
    }
    for (const double past : {1.1e6, 0.9e-6, 0.0, -1.0, std::nan("")}) {
      ExpectRefused(Keys("granite").Float(suffix, past),
                    absl::StatusCode::kInvalidArgument,
                    std::string("granite.") + suffix + " must be");
    }
  }
}

TEST(GraphParametersTest, QueriesOfLlama4GrowFromThePositionBefore) {
  const QueryGrowth implied = Keys("llama4").MustRead().query_growth;
  EXPECT_EQ(implied.FactorAt(8'190), 1.0f);
  EXPECT_FLOAT_EQ(implied.FactorAt(8'191), 1 + 0.1f * std::log(2.0f));
  const QueryGrowth given = Keys("llama4")
                                .Float("attention.temperature_scale", 0.5)
                                .Int("attention.temperature_length", 8)
                                .MustRead()
                                .query_growth;
  EXPECT_FLOAT_EQ(given.FactorAt(7), 1 + 0.5f * std::log(2.0f));
  ExpectRefused(Keys("llama4").Int("attention.temperature_length", 0),
                absl::StatusCode::kInvalidArgument,
                "llama4.attention.temperature_length");
}

TEST(GraphParametersTest, QueriesGrowByTheOriginalContext) {
  constexpr const char* kKey = "attention.temperature_scale";
  const QueryGrowth growth = Keys("mistral3")
                                 .Float(kKey, 0.5)
                                 .Int("rope.scaling.original_context_length", 8)
                                 .MustRead()
                                 .query_growth;
  EXPECT_EQ(growth.FactorAt(0), 1.0f);
  EXPECT_EQ(growth.FactorAt(7), 1.0f);
  EXPECT_FLOAT_EQ(growth.FactorAt(8), 1 + 0.5f * std::log(2.0f));
  EXPECT_FLOAT_EQ(growth.FactorAt(31), 1 + 0.5f * std::log(4.0f));
  EXPECT_EQ(Keys("mistral3").MustRead().query_growth.scale, 0);
  EXPECT_EQ(Keys("llama").Float(kKey, 0.5).MustRead().query_growth.scale, 0);
  for (const double past : {-0.1, 1.1e6, std::nan("")}) {
    ExpectRefused(Keys("mistral3").Float(kKey, past),
                  absl::StatusCode::kInvalidArgument, kKey);
  }
}

TEST(GraphParametersTest, NothingIsRotatedWhereTheFileSaysSo) {
  constexpr const char* kSwitch = "rope.scaling.finetuned";
  EXPECT_EQ(Keys("granite").MustRead().rope.n_rot, 32);
  EXPECT_EQ(Keys("granite").Bool(kSwitch, true).MustRead().rope.n_rot, 32);
  EXPECT_EQ(Keys("granite").Bool(kSwitch, false).MustRead().rope.n_rot, 0);
  EXPECT_EQ(Keys("llama").Bool(kSwitch, false).MustRead().rope.n_rot, 32);
}

constexpr char kGateCuts[] = "activation_sparsity_scale";

TEST(GraphParametersTest, GatesAreCutInTheLayersThatSaySo) {
  const double none = -std::numeric_limits<double>::infinity();
  const GraphParameters parameters =
      Keys("gemma3n").Floats(kGateCuts, {1.5, -0.5, none, -2e30}).MustRead();
  EXPECT_EQ(parameters.GateCut(0), 1.5f);
  EXPECT_EQ(parameters.GateCut(1), -0.5f);
  EXPECT_EQ(parameters.GateCut(2), std::nullopt);
  EXPECT_EQ(parameters.GateCut(3), std::nullopt);
  EXPECT_EQ(Keys("gemma3n").MustRead().GateCut(0), std::nullopt);
  EXPECT_EQ(
      Keys("gemma3").Floats(kGateCuts, {1, 1, 1, 1}).MustRead().GateCut(0),
      std::nullopt);
}

TEST(GraphParametersTest, CutsUpToTheirLimitsAndNotPastThem) {
  for (const double at : {1e6, -1e6}) {
    EXPECT_TRUE(Keys("gemma3n").Floats(kGateCuts, {at, 1, 1, 1}).Read().ok());
  }
  for (const double past : {1.1e6, -1.1e6, std::nan("")}) {
    ExpectRefused(Keys("gemma3n").Floats(kGateCuts, {past, 1, 1, 1}),
                  absl::StatusCode::kInvalidArgument, kGateCuts);
  }
  for (const auto& few : {std::vector<double>(3), std::vector<double>(5)}) {
    ExpectRefused(Keys("gemma3n").Floats(kGateCuts, few),
                  absl::StatusCode::kInvalidArgument, "each of 4 layers");
  }
}

TEST(GraphParametersTest, LayersWorkOnTheFirstStream) {
  EXPECT_TRUE(Keys("gemma3n").Int("altup.active_idx", 0).Read().ok());
  ExpectRefused(Keys("gemma3n").Int("altup.active_idx", 1),
                absl::StatusCode::kUnimplemented, "altup.active_idx 1");
}

// A small model of latent attention with experts.
Keys LatentKeys() {
  return Keys("deepseek2")
      .Int("attention.head_count_kv", 1)
      .Int("attention.kv_lora_rank", 32)
      .Int("attention.key_length", 48)
      .Int("attention.value_length", 32)
      .Int("attention.key_length_mla", 64)
      .Int("attention.value_length_mla", 24)
      .Int("rope.dimension_count", 16)
      .Int("expert_count", 4)
      .Int("expert_used_count", 2);
}

TEST(GraphParametersTest, ScoresOfLatentAttentionAreScaledByWholeKeys) {
  const GraphParameters plain = LatentKeys().MustRead();
  EXPECT_EQ(plain.attention_scale, 0.125f);
  EXPECT_EQ(plain.rope.n_rot, 16);
  const GraphParameters scaled =
      LatentKeys()
          .Text("rope.scaling.type", "yarn")
          .Float("rope.scaling.factor", 8)
          .Float("rope.scaling.yarn_log_multiplier", 0.1)
          .MustRead();
  const float magnitude = 1 + 0.1f * std::log(8.0f);
  EXPECT_FLOAT_EQ(scaled.attention_scale, 0.125f * magnitude * magnitude);
  EXPECT_EQ(scaled.rope.magnitude, 1.0f);
}

TEST(GraphParametersTest, GroupsOfSoftmaxAreAsGoodAsTheirBestExpert) {
  const auto routing = [](uint64_t gate) {
    return LatentKeys()
        .Int("expert_group_count", 2)
        .Int("expert_group_used_count", 1)
        .Int("expert_gating_func", gate)
        .MustRead()
        .routing;
  };
  EXPECT_EQ(routing(1).n_groups_used, 1);
  EXPECT_TRUE(routing(1).groups_by_best);
  EXPECT_FALSE(routing(2).groups_by_best);
}

TEST(GraphParametersTest, ABiasOfTheChoiceMeansSigmoidWhereNoKeySaysIt) {
  Keys keys = LatentKeys();
  EXPECT_EQ(keys.MustRead().routing.gate, kernels::RouterGate::kSoftmax);
  EXPECT_FALSE(keys.MustRead().routing.is_normalized);
  keys.WithTensor("blk.1.exp_probs_b.bias", 4);
  EXPECT_EQ(keys.MustRead().routing.gate, kernels::RouterGate::kSigmoid);
  EXPECT_EQ(keys.Int("expert_gating_func", 1).MustRead().routing.gate,
            kernels::RouterGate::kSoftmax);
}

}  // namespace
}  // namespace plimsoll::worker
