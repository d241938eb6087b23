// Whether a model runs follows from its architecture's specification and its
// tensors; what is missing has a name.
#include "worker/graph/decoder/runnable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "planner/gguf/header_numbers.h"
#include "planner/layout/layer_split.h"
#include "planner/model/architectures.h"
#include "tests/planner/model/small_models.h"
#include "worker/graph/attention/attention_mixer.h"
#include "worker/graph/attention/latent_attention_mixer.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::planner::GgufHeader;
using ::plimsoll::planner::HeaderNumbers;
using ::plimsoll::planner::ModelShape;
using ::testing::HasSubstr;

struct Extras {
  int64_t n_experts = 0;
  uint64_t ple_dim = 0;
};

// Six layers of any architecture, and experts and per-layer embeddings if there
// are any.
ModelShape Small(const std::string& architecture, const Extras& extras) {
  HeaderNumbers numbers = planner::Small(architecture);
  numbers.Int("embedding_length_per_layer_input", extras.ple_dim);
  if (architecture == "gemma4") {
    numbers.Int("attention.sliding_window_pattern", 6);
  }
  if (architecture == "qwen2moe") {
    numbers.Int("expert_shared_feed_forward_length", 96);
  }
  if (extras.n_experts > 0) {
    numbers.Int("expert_count", static_cast<uint64_t>(extras.n_experts))
        .Int("expert_used_count", 1);
  }
  EXPECT_TRUE(planner::AddTensors(numbers.header(),
                                  {DType::kF32, DType::kF32, DType::kF32}, true)
                  .ok());
  auto shape = planner::ShapeFromGguf(numbers.header());
  EXPECT_TRUE(shape.ok()) << shape.status();
  return *std::move(shape);
}

TEST(CheckArchitectureTest, WhatTheGraphCanDoRuns) {
  for (const char* name :
       {"cohere2", "deepseek2", "ernie4_5", "exaone4", "gemma",   "gemma2",
        "gemma3",  "gemma3n",   "gemma4",   "glm4",    "glm4moe", "granite",
        "llama",   "llama4",    "mistral3", "olmo2",   "phi3",    "qwen2",
        "qwen3",   "seed_oss",  "smollm3"}) {
    const absl::Status status = CheckArchitecture(Small(name, {}));
    EXPECT_TRUE(status.ok()) << status;
  }
  for (const char* name :
       {"deepseek2", "ernie4_5-moe", "gemma4", "glm4moe", "gpt-oss",
        "granitemoe", "llama", "llama4", "qwen2moe", "qwen3moe"}) {
    const absl::Status status =
        CheckArchitecture(Small(name, {.n_experts = 4}));
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(CheckArchitectureTest, WhatIsMissingIsNamed) {
  struct {
    const char* architecture;
    int64_t n_experts;
    const char* missing;
  } const cases[] = {
      {"gemma3n", 4, "norms of experts' outputs"},
  };
  for (const auto& c : cases) {
    const absl::Status status =
        CheckArchitecture(Small(c.architecture, {.n_experts = c.n_experts}));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_EQ(status.message(),
              "architecture \"" + std::string(c.architecture) + "\" with " +
                  c.missing + " can be planned but not run by this build");
  }
}

TEST(CheckArchitectureTest, WhatAllLayersShareRunsWhereTheyAreTogether) {
  struct {
    const char* architecture;
    const char* what;
  } const cases[] = {{"gemma3n", "several residual streams"},
                     {"gemma4", "per-layer embeddings"}};
  for (const auto& c : cases) {
    const ModelShape shape = Small(c.architecture, {.ple_dim = 32});
    EXPECT_TRUE(CheckArchitecture(shape).ok()) << CheckArchitecture(shape);
    for (const int64_t first : {0, 3}) {
      const auto part = planner::SliceLayers(shape, first, 3);
      ASSERT_TRUE(part.ok()) << part.status();
      EXPECT_THAT(
          std::string(CheckArchitecture(*part).message()),
          HasSubstr(std::string(c.what) + " and layers on several devices"));
    }
  }
}

TEST(CheckArchitectureTest, EveryArchitectureRunsOrSaysWhyNot) {
  for (const planner::Architecture* architecture : planner::Architectures()) {
    const absl::Status status =
        CheckArchitecture(Small(std::string(architecture->name), {}));
    if (status.ok()) continue;
    EXPECT_THAT(std::string(status.message()), HasSubstr(" with "));
  }
}

TEST(CheckArchitectureTest, ATensorThatNothingReadsIsNamed) {
  for (const char* name : {"output.bias", "blk.3.attn_qkv.weight"}) {
    ModelShape shape = Small("qwen2", {});
    shape.weights.push_back(shape.weights.back());
    shape.weights.back().name = name;
    const absl::Status status = CheckArchitecture(shape);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("with tensor \"" + std::string(name) + "\""));
  }
}

TEST(CheckArchitectureTest, LatentAttentionSaysWhatItCannotDo) {
  const planner::Architecture architecture =
      *planner::FindArchitecture("deepseek2");
  EXPECT_EQ(LatentAttentionMixer::Missing(architecture), "");
  for (auto change :
       {+[](planner::Architecture& a) {
          a.windows = planner::WindowRule::kAll;
        },
        +[](planner::Architecture& a) { a.has_pre_norms = false; },
        +[](planner::Architecture& a) { a.unrotated_period = 4; },
        +[](planner::Architecture& a) { a.has_parallel_ffn = true; },
        +[](planner::Architecture& a) {
          a.growing_queries = planner::GrowingQueries::kAll;
        }}) {
    planner::Architecture changed = architecture;
    change(changed);
    EXPECT_NE(LatentAttentionMixer::Missing(changed), "");
  }
  // Its tensors are not those of other attention.
  EXPECT_FALSE(LatentAttentionMixer::Reads("attn_k.weight"));
  EXPECT_FALSE(AttentionMixer::Reads(architecture, "attn_k_b.weight"));
}

TEST(CheckArchitectureTest, AnArchitectureThatNobodyKnowsIsRefused) {
  ModelShape shape = Small("llama", {});
  shape.architecture = "mamba";
  EXPECT_EQ(CheckArchitecture(shape).code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace plimsoll::worker
