// Names of a checkpoint's tensors, and the rows that change places.
#include "planner/model/checkpoint_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/model/architectures.h"

namespace plimsoll::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What becomes of a tensor that the file has.
FileTensor Find(absl::string_view architecture, absl::string_view name) {
  const auto found = FindFileTensor(*FindArchitecture(architecture), name);
  EXPECT_TRUE(found.ok() && found->has_value()) << name << found.status();
  return found.ok() && *found ? **found : FileTensor{};
}

TEST(CheckpointNamesTest, LayersNormsAndEndsHaveTheFilesNames) {
  EXPECT_EQ(Find("llama", "model.embed_tokens.weight").name,
            "token_embd.weight");
  EXPECT_EQ(Find("llama", "model.norm.weight").name, "output_norm.weight");
  EXPECT_EQ(Find("llama", "lm_head.weight").name, "output.weight");
  EXPECT_EQ(Find("llama", "model.layers.12.self_attn.o_proj.weight").name,
            "blk.12.attn_output.weight");
  EXPECT_EQ(Find("qwen2", "model.layers.0.self_attn.q_proj.bias").name,
            "blk.0.attn_q.bias");
  EXPECT_EQ(Find("phi3", "model.layers.0.self_attn.qkv_proj.weight").name,
            "blk.0.attn_qkv.weight");
  EXPECT_EQ(Find("phi3", "model.layers.0.mlp.gate_up_proj.weight").name,
            "blk.0.ffn_up.weight");
}

TEST(CheckpointNamesTest, OneNameOfANormIsAnotherOneElsewhere) {
  const std::string name = "model.layers.3.post_attention_layernorm.weight";
  EXPECT_EQ(Find("llama", name).name, "blk.3.ffn_norm.weight");
  EXPECT_EQ(Find("glm4", name).name, "blk.3.ffn_norm.weight");
  EXPECT_EQ(Find("gemma2", name).name, "blk.3.post_attention_norm.weight");
  EXPECT_EQ(Find("olmo2", name).name, "blk.3.post_attention_norm.weight");
  EXPECT_EQ(Find("exaone4", name).name, "blk.3.post_attention_norm.weight");
  EXPECT_EQ(Find("mistral3", name).name, "blk.3.ffn_norm.weight");
  EXPECT_EQ(Find("ernie4_5", name).name, "blk.3.ffn_norm.weight");
}

TEST(CheckpointNamesTest, SeedsNormBeforeTheFfnIsNamedAfterAttention) {
  EXPECT_EQ(
      Find("seed_oss", "model.layers.3.post_attention_layernorm.weight").name,
      absl::StrCat("blk.3.", FindArchitecture("seed_oss")->ffn_norm));
}

TEST(CheckpointNamesTest, AParallelFfnHasNoNormOfItsOwn) {
  EXPECT_EQ(Find("cohere2", "model.layers.3.input_layernorm.weight").name,
            "blk.3.attn_norm.weight");
  const auto found =
      FindFileTensor(*FindArchitecture("cohere2"),
                     "model.layers.3.post_attention_layernorm.weight");
  EXPECT_TRUE(absl::IsInvalidArgument(found.status())) << found.status();
}

TEST(CheckpointNamesTest, TheTextPartOfALargerModelIsFound) {
  for (const char* prefix :
       {"model.", "language_model.model.", "model.language_model."}) {
    EXPECT_EQ(Find("gemma3", absl::StrCat(prefix, "embed_tokens.weight")).name,
              "token_embd.weight");
  }
}

TEST(CheckpointNamesTest, OtherPartsAreLeftOut) {
  for (const char* name :
       {"vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight",
        "model.vision_tower.x", "multi_modal_projector.mm_soft_emb_norm.weight",
        "model.layers.0.self_attn.rotary_emb.inv_freq"}) {
    const auto found = FindFileTensor(*FindArchitecture("gemma3"), name);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_FALSE(found->has_value()) << name;
  }
}

TEST(CheckpointNamesTest, OddNamesAreRefused) {
  for (const char* name :
       {"", "model.", "weight", "model.layers.", "model.layers.x.y.weight",
        "model.layers.-1.mlp.up_proj.weight", "model.layers.0.mlp.up_proj",
        "model.layers.1000.mlp.up_proj.weight",
        "model.layers.0.mlp.up_proj.scale", "model.layers.0.norm.weight",
        "model.embed_tokens.weight_scale_inv"}) {
    const auto found = FindFileTensor(*FindArchitecture("llama"), name);
    EXPECT_TRUE(absl::IsInvalidArgument(found.status())) << name;
    EXPECT_THAT(std::string(found.status().message()), HasSubstr("unknown"));
  }
}

TEST(CheckpointNamesTest, OnlyGemmasNormsLackOne) {
  EXPECT_TRUE(Find("gemma3", "model.norm.weight").adds_one);
  EXPECT_TRUE(
      Find("gemma3", "model.layers.0.self_attn.q_norm.weight").adds_one);
  EXPECT_FALSE(Find("gemma3", "model.embed_tokens.weight").adds_one);
  EXPECT_FALSE(Find("llama", "model.norm.weight").adds_one);
}

TEST(CheckpointNamesTest, RowsMoveWhereTheFileHasAdjacentPairs) {
  const auto moves = [](absl::string_view architecture, const char* module) {
    return Find(architecture,
                absl::StrCat("model.layers.0.self_attn.", module, ".weight"))
        .moves_rows;
  };
  for (const char* architecture : {"llama", "granite", "smollm3", "mistral3"}) {
    EXPECT_TRUE(moves(architecture, "q_proj")) << architecture;
    EXPECT_TRUE(moves(architecture, "k_proj")) << architecture;
    EXPECT_FALSE(moves(architecture, "v_proj")) << architecture;
    EXPECT_FALSE(moves(architecture, "o_proj")) << architecture;
  }
  for (const char* halves_in_both : {"qwen3", "exaone4", "seed_oss"}) {
    EXPECT_FALSE(moves(halves_in_both, "q_proj")) << halves_in_both;
  }
  for (const char* adjacent_in_both : {"glm4", "cohere2", "ernie4_5"}) {
    EXPECT_FALSE(moves(adjacent_in_both, "q_proj")) << adjacent_in_both;
  }
}

std::vector<int64_t> Rows(int64_t n, int64_t head_dim, int64_t n_rot) {
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < n; ++row) {
    rows.push_back(SourceRow(row, head_dim, n_rot));
  }
  return rows;
}

TEST(CheckpointNamesTest, HalvesOfAHeadBecomeAdjacentPairs) {
  EXPECT_THAT(Rows(8, 4, 4), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_THAT(Rows(6, 6, 6), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(Rows(8, 8, 4), ElementsAre(0, 2, 1, 3, 4, 5, 6, 7));
}

TEST(CheckpointNamesTest, EveryPlaceInAFileIsAnother) {
  const Architecture& gemma3 = *FindArchitecture("gemma3");
  std::set<int64_t> places;
  int64_t n = 0;
  for (const int layer : {0, 1, 511}) {
    for (const ModuleName& norm : gemma3.checkpoint.norms) {
      places.insert(Find("gemma3", absl::StrCat("model.layers.", layer, ".",
                                                norm.checkpoint, ".weight"))
                        .place);
      ++n;
    }
    for (const char* module : {"self_attn.q_proj", "mlp.down_proj"}) {
      places.insert(Find("gemma3", absl::StrCat("model.layers.", layer, ".",
                                                module, ".weight"))
                        .place);
      ++n;
    }
  }
  EXPECT_EQ(static_cast<int64_t>(places.size()), n);
}

TEST(CheckpointNamesTest, ArchitecturesWithoutAFormAreRefusedByName) {
  EXPECT_TRUE(CheckConvertible(*FindArchitecture("llama")).ok());
  const absl::Status status = CheckConvertible(*FindArchitecture("gemma3n"));
  EXPECT_TRUE(absl::IsUnimplemented(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("gemma3n"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("granite, llama"));
}

}  // namespace
}  // namespace plimsoll::planner
