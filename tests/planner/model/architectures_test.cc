// Every architecture: its layers, its tensors, and what is wrong with bad ones.
#include "planner/model/architectures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "planner/fleet/bounds.h"
#include "tests/planner/known_models.h"
#include "tests/planner/model/small_models.h"

namespace plimsoll::planner {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

std::vector<int64_t> Windows(const ModelShape& shape) {
  std::vector<int64_t> windows;
  for (const LayerShape& layer : shape.layers) windows.push_back(layer.window);
  return windows;
}

TEST(ArchitecturesTest, AllAreListedInOrderAndFound) {
  std::vector<absl::string_view> names;
  for (const Architecture* a : Architectures()) {
    names.push_back(a->name);
    EXPECT_EQ(FindArchitecture(a->name), a);
  }
  EXPECT_THAT(names, IsSupersetOf({"gemma4", "gpt-oss", "llama", "qwen3"}));
  EXPECT_EQ(SupportedArchitectures(), absl::StrJoin(names, ", "));
  EXPECT_EQ(FindArchitecture("mamba"), nullptr);
}

TEST(ArchitecturesTest, SpecificationsDoNotContradictEachOther) {
  std::set<absl::string_view> config_types;
  absl::string_view before;
  for (const Architecture* a : Architectures()) {
    SCOPED_TRACE(a->name);
    EXPECT_LT(before, a->name);  // in order, and none twice
    before = a->name;
    EXPECT_FALSE(a->config_types.front().empty());
    for (const absl::string_view type : a->config_types) {
      if (type.empty()) continue;
      EXPECT_TRUE(config_types.insert(type).second) << type;
    }
    const bool has_pattern = a->windows == WindowRule::kPattern;
    EXPECT_TRUE(has_pattern || (a->window_period == 0 && a->window == 0 &&
                                !a->windows_are_chunks));
    EXPECT_NE(a->unrotated_period, 1);  // no layer would rotate
    EXPECT_FALSE(a->has_scale_keys && a->scales_embedding);
    EXPECT_FALSE(a->has_scale_keys && a->multiplies_logits);
    EXPECT_EQ(a->recurrent_layers == RecurrentRule::kNone,
              a->recurrent == MixerKind::kNone);
    EXPECT_TRUE(!a->has_single_sublayers ||
                a->recurrent_layers == RecurrentRule::kWithoutKvHeads);
    // Queries are taken out from between the gates by their norm.
    EXPECT_TRUE(!a->has_attention_gates || a->head_norms == HeadNorms::kEach);
    // What both halves read must stay until both have read it.
    EXPECT_TRUE(!a->has_parallel_ffn ||
                (a->has_pre_norms && !a->has_post_norms));
    // A stream that is kept divided must be normed wherever it is read.
    EXPECT_TRUE(a->has_pre_norms || !a->has_scale_keys);
    // A cap without a key would be one that no file can change.
    for (const SoftCap& cap : {a->score_cap, a->logit_cap}) {
      EXPECT_TRUE(!cap.key.empty() || cap.fallback == 0);
    }
  }
}

TEST(ArchitecturesTest, LayersSayWhatTheyAreMadeOf) {
  const auto ffn_of = [](HeaderNumbers numbers) {
    const auto shape = ShapeOf(std::move(numbers));
    EXPECT_TRUE(shape.ok()) << shape.status();
    EXPECT_EQ(shape->layers[0].mixer, MixerKind::kAttention);
    return shape->layers[0].ffn;
  };
  const auto with_experts = [](const char* architecture) {
    return Small(architecture)
        .Int("expert_count", 4)
        .Int("expert_used_count", 1);
  };
  EXPECT_EQ(ffn_of(Small("gemma")), FfnKind::kGated);
  EXPECT_EQ(ffn_of(Small("phi3")), FfnKind::kFusedGated);
  EXPECT_EQ(ffn_of(with_experts("llama")), FfnKind::kExperts);
  EXPECT_EQ(
      ffn_of(with_experts("gemma4").Int("attention.sliding_window_pattern", 6)),
      FfnKind::kExpertsBesideGated);
}

TEST(ArchitecturesTest, GemmasDifferInTheirNorms) {
  struct {
    const char* architecture;
    bool has_post_norms, has_head_norms;
  } const cases[] = {
      {"gemma", false, false}, {"gemma2", true, false}, {"gemma3", true, true}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.architecture);
    const auto shape = ShapeOf(Small(c.architecture));
    ASSERT_TRUE(shape.ok()) << shape.status();
    EXPECT_EQ(HasTensor(*shape, "blk.0.post_attention_norm.weight"),
              c.has_post_norms);
    EXPECT_EQ(HasTensor(*shape, "blk.0.post_ffw_norm.weight"),
              c.has_post_norms);
    EXPECT_EQ(HasTensor(*shape, "blk.0.attn_q_norm.weight"), c.has_head_norms);
  }
}

TEST(ArchitecturesTest, Olmo2NormsAllHeadsTogetherAndNoInput) {
  const auto shape = ShapeOf(Small("olmo2"));
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_FALSE(HasTensor(*shape, "blk.0.attn_norm.weight"));
  EXPECT_FALSE(HasTensor(*shape, "blk.0.ffn_norm.weight"));
  EXPECT_TRUE(HasTensor(*shape, "blk.0.post_ffw_norm.weight"));
  std::map<std::string, int64_t> cols;
  for (const WeightTensor& tensor : shape->weights) {
    cols[tensor.name] = tensor.cols;
  }
  EXPECT_EQ(cols["blk.0.attn_q_norm.weight"], 128);
  EXPECT_EQ(cols["blk.0.attn_k_norm.weight"], 64);
}

TEST(ArchitecturesTest, AParallelFfnHasNoNorm) {
  const auto shape = ShapeOf(Small("cohere2"));
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_TRUE(HasTensor(*shape, "blk.0.attn_norm.weight"));
  EXPECT_FALSE(HasTensor(*shape, "blk.0.ffn_norm.weight"));
}

TEST(ArchitecturesTest, WindowsFollowTheArchitecturesPattern) {
  const std::map<std::string, std::vector<int64_t>> expected = {
      {"gemma2", {8, 0, 8, 0, 8, 0}},  {"gpt-oss", {8, 0, 8, 0, 8, 0}},
      {"gemma3", {8, 8, 8, 8, 8, 0}},  {"gemma3n", {8, 8, 8, 8, 0, 8}},
      {"olmo2", {8, 8, 8, 0, 8, 8}},   {"phi3", {8, 8, 8, 8, 8, 8}},
      {"llama4", {8, 8, 8, 0, 8, 8}},  {"cohere2", {8, 8, 8, 0, 8, 8}},
      {"exaone4", {8, 8, 8, 0, 8, 8}},
  };
  for (const auto& [architecture, windows] : expected) {
    const auto shape =
        ShapeOf(Small(architecture).Int("attention.sliding_window", 8));
    ASSERT_TRUE(shape.ok()) << architecture << ": " << shape.status();
    EXPECT_EQ(Windows(*shape), windows) << architecture;
  }
  for (const char* architecture : {"deepseek2", "glm4", "granite", "llama",
                                   "mistral3", "qwen2", "qwen3", "qwen3moe"}) {
    const auto shape =
        ShapeOf(Small(architecture).Int("attention.sliding_window", 8));
    EXPECT_TRUE(absl::IsUnimplemented(shape.status())) << architecture;
  }
}

TEST(ArchitecturesTest, Llama4HasChunksUnlessTheFileSaysThatItHasNone) {
  const auto implied = ShapeOf(Small("llama4"));
  ASSERT_TRUE(implied.ok()) << implied.status();
  EXPECT_THAT(Windows(*implied),
              ElementsAre(8'192, 8'192, 8'192, 0, 8'192, 8'192));
  EXPECT_TRUE(implied->has_windows);
  const auto none = ShapeOf(Small("llama4").Int("attention.sliding_window", 0));
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_THAT(Windows(*none), Each(0));
  EXPECT_FALSE(none->has_windows);
}

TEST(ArchitecturesTest, Gemma4NeedsItsPattern) {
  ExpectInvalid(Small("gemma4").Int("attention.sliding_window", 8),
                "gemma4.attention.sliding_window_pattern");
}

TEST(ArchitecturesTest, WindowLayersMayHaveAHeadDimOfTheirOwn) {
  const ModelShape shape = Gemma4();
  EXPECT_TRUE(shape.has_window_head_dim);
  EXPECT_EQ(shape.layers[0].head_dim, 256);
  EXPECT_EQ(shape.layers[0].n_kv_heads, 8);
  EXPECT_EQ(shape.layers[5].head_dim, 512);
  EXPECT_EQ(shape.layers[5].n_kv_heads, 1);
  EXPECT_FALSE(HasTensor(shape, "blk.5.attn_v.weight"));
  EXPECT_TRUE(HasTensor(shape, "blk.4.attn_v.weight"));
}

TEST(ArchitecturesTest, LastLayersMayReadTheKeysOfLayersBeforeThem) {
  HeaderNumbers numbers = Small("gemma3n");
  numbers.Int("attention.sliding_window", 8)
      .Int("attention.shared_kv_layers", 1)
      .Int("embedding_length_per_layer_input", 32);
  auto shape = ShapeOf(numbers);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->layers[5].kv_source, 3);  // the last local one before it
  EXPECT_FALSE(HasTensor(*shape, "blk.5.attn_k.weight"));
  EXPECT_EQ(shape->n_streams, 4);
  EXPECT_EQ(shape->ple_dim, 32);
  ExpectInvalid(numbers.Int("attention.shared_kv_layers", 2), "layer 4");
  ExpectInvalid(numbers.Int("attention.shared_kv_layers", 6),
                "attention.shared_kv_layers");
}

TEST(ArchitecturesTest, SharedKeysHaveTheHeadsOfTheirOwner) {
  HeaderNumbers numbers = Small("gemma3n");
  numbers.Int("attention.sliding_window", 8)
      .Int("attention.shared_kv_layers", 1)
      .List("attention.head_count_kv", GgufType::kU32, {2, 2, 2, 2, 2, 4});
  ExpectInvalid(numbers, "attention.head_count_kv");
}

TEST(ArchitecturesTest, TensorsThatNothingReadsAreAllowedAndNotCounted) {
  HeaderNumbers numbers = Small("gemma3n");
  numbers.Int("attention.sliding_window", 8)
      .Int("attention.shared_kv_layers", 1);
  GgufHeader header = numbers.header();
  ASSERT_TRUE(
      AddTensors(header, {DType::kQ8_0, DType::kQ8_0, DType::kQ8_0}, true)
          .ok());
  const size_t n = ShapeFromGguf(header)->weights.size();
  header.tensors.push_back({.name = "blk.5.attn_k.weight",
                            .dtype = DType::kQ8_0,
                            .n_dims = 2,
                            .ne = {64, 64, 1, 1},
                            .offset = 0,
                            .bytes = 64 * 68});
  const auto shape = ShapeFromGguf(header);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->weights.size(), n);
  header.tensors.back().ne[1] = 65;
  EXPECT_TRUE(absl::IsInvalidArgument(ShapeFromGguf(header).status()));
}

TEST(ArchitecturesTest, StreamsUpToTheirLimitAndNotPastIt) {
  EXPECT_TRUE(
      ShapeOf(Small("gemma3n").Int("altup.num_inputs", ModelShape::kMaxStreams))
          .ok());
  ExpectInvalid(
      Small("gemma3n").Int("altup.num_inputs", ModelShape::kMaxStreams + 1),
      "altup.num_inputs");
  ExpectInvalid(Small("gemma3n").Int("altup.num_inputs", 1),
                "altup.num_inputs");
}

TEST(ArchitecturesTest, BiasesAreThoseOfTheArchitecture) {
  const auto biases = [](const char* architecture, uint64_t n_experts) {
    const auto shape = ShapeOf(Small(architecture)
                                   .Int("expert_count", n_experts)
                                   .Int("expert_used_count", n_experts));
    EXPECT_TRUE(shape.ok()) << shape.status();
    return std::count_if(shape->weights.begin(), shape->weights.end(),
                         [](const auto& tensor) {
                           return absl::EndsWith(tensor.name, ".bias");
                         });
  };
  EXPECT_EQ(biases("llama", /*n_experts=*/0), 0);
  EXPECT_EQ(biases("qwen2", /*n_experts=*/0), 6 * 3);
  EXPECT_EQ(biases("gpt-oss", /*n_experts=*/0), 6 * 4);
  EXPECT_EQ(biases("gpt-oss", /*n_experts=*/2), 6 * 8);
}

// Expects the tensors to lie one after the other in the whole of `in_file`.
void ExpectSlices(const ModelShape& shape, const GgufHeader& header,
                  const std::string& in_file,
                  const std::vector<std::pair<std::string, int64_t>>& parts) {
  SCOPED_TRACE(in_file);
  const GgufTensor* whole = header.FindTensor(in_file);
  ASSERT_NE(whole, nullptr);
  int64_t offset = header.data_offset + whole->offset;
  const int64_t end = offset + whole->bytes;
  for (const auto& wanted : parts) {
    SCOPED_TRACE(wanted.first);
    const auto part = std::find_if(
        shape.weights.begin(), shape.weights.end(),
        [&](const auto& tensor) { return tensor.name == wanted.first; });
    ASSERT_NE(part, shape.weights.end());
    EXPECT_EQ(part->is_vector ? part->cols : part->rows, wanted.second);
    EXPECT_EQ(part->file_offset, offset);
    offset += part->file_bytes;
  }
  EXPECT_EQ(offset, end);
}

TEST(ArchitecturesTest, TensorsInOneAreSeveralToTheirReaders) {
  HeaderNumbers numbers = Small("phi3");
  const auto shape = ShapeOf(numbers);
  ASSERT_TRUE(shape.ok()) << shape.status();
  GgufHeader header = numbers.header();
  ASSERT_TRUE(
      AddTensors(header, {DType::kQ8_0, DType::kQ8_0, DType::kQ8_0}, true)
          .ok());
  ExpectSlices(*shape, header, "blk.1.attn_qkv.weight",
               {{"blk.1.attn_q.weight", 128},
                {"blk.1.attn_k.weight", 64},
                {"blk.1.attn_v.weight", 64}});
  ExpectSlices(*shape, header, "blk.1.ffn_up.weight",
               {{"blk.1.ffn_gate.weight", 96}, {"blk.1.ffn_up.weight", 96}});
  EXPECT_FALSE(HasTensor(*shape, "blk.1.attn_qkv.weight"));
}

// Turns queries, keys and values into one tensor, with a bias beside it.
void FuseQkv(GgufHeader& header) {
  std::erase_if(header.tensors, [](const GgufTensor& tensor) {
    return absl::EndsWith(tensor.name, ".attn_k.weight") ||
           absl::EndsWith(tensor.name, ".attn_v.weight") ||
           absl::EndsWith(tensor.name, ".bias");
  });
  std::vector<GgufTensor> biases;
  for (GgufTensor& tensor : header.tensors) {
    if (!absl::EndsWith(tensor.name, ".attn_q.weight")) continue;
    tensor.name = absl::StrReplaceAll(tensor.name, {{"attn_q", "attn_qkv"}});
    tensor.ne[1] *= 2;  // 4 heads of queries, 2 of keys, 2 of values
    tensor.bytes *= 2;
    biases.push_back(
        {.name = absl::StrReplaceAll(tensor.name, {{".weight", ".bias"}}),
         .dtype = DType::kF32,
         .n_dims = 1,
         .ne = {tensor.ne[1], 1, 1, 1},
         .offset = 0,
         .bytes = tensor.ne[1] * 4});
  }
  header.tensors.insert(header.tensors.end(), biases.begin(), biases.end());
}

TEST(ArchitecturesTest, AnyFileMayHaveQueriesKeysAndValuesInOne) {
  for (const char* architecture : {"llama", "qwen2"}) {
    SCOPED_TRACE(architecture);
    GgufHeader header = Small(architecture).header();
    ASSERT_TRUE(
        AddTensors(header, {DType::kQ8_0, DType::kQ8_0, DType::kQ8_0}, true)
            .ok());
    FuseQkv(header);
    const auto shape = ShapeFromGguf(header);
    ASSERT_TRUE(shape.ok()) << shape.status();
    ExpectSlices(*shape, header, "blk.5.attn_qkv.bias",
                 {{"blk.5.attn_q.bias", 128},
                  {"blk.5.attn_k.bias", 64},
                  {"blk.5.attn_v.bias", 64}});
    header.tensors.back().ne[0] -= 1;
    EXPECT_TRUE(absl::IsInvalidArgument(ShapeFromGguf(header).status()));
    header.tensors.back().ne[0] += 1;
    header.tensors.back().name = "blk.5.attn_q.bias";
    EXPECT_FALSE(ShapeFromGguf(header).ok());
  }
}

TEST(ArchitecturesTest, ATypeThatDoesNotDivideARowGivesWay) {
  HeaderNumbers numbers = Small("llama");
  numbers.Int("feed_forward_length", 40);  // ffn_down has rows of 40
  GgufHeader header = numbers.header();
  ASSERT_TRUE(
      AddTensors(header, {DType::kQ4_K, DType::kQ4_K, DType::kQ4_K}, false)
          .ok());
  EXPECT_EQ(header.FindTensor("blk.0.ffn_up.weight")->dtype, DType::kQ8_0);
  EXPECT_EQ(header.FindTensor("blk.0.ffn_down.weight")->dtype, DType::kF16);
  EXPECT_EQ(header.FindTensor("output.weight")->dtype, DType::kQ8_0);
  EXPECT_EQ(header.FindTensor("output_norm.weight")->dtype, DType::kF32);
}

TEST(ArchitecturesTest, KeysOfAWrongTypeAreNamed) {
  for (const char* key : {"block_count",
                          "embedding_length",
                          "context_length",
                          "vocab_size",
                          "embedding_length_per_layer_input",
                          "altup.num_inputs",
                          "attention.key_length",
                          "attention.value_length",
                          "attention.sliding_window",
                          "attention.key_length_swa",
                          "attention.value_length_swa",
                          "attention.shared_kv_layers",
                          "rope.dimension_count",
                          "rope.freq_base",
                          "rope.freq_base_swa",
                          "attention.layer_norm_rms_epsilon",
                          "attention.head_count",
                          "attention.head_count_kv",
                          "feed_forward_length",
                          "expert_count",
                          "attention.sliding_window_pattern"}) {
    ExpectInvalid(Small("gemma3n").List(key, GgufType::kF32, {1}),
                  absl::StrCat("gemma3n.", key));
  }
  ExpectInvalid(Small("llama")
                    .Int("expert_count", 4)
                    .Int("expert_used_count", 1)
                    .List("expert_feed_forward_length", GgufType::kU32, {1}),
                "llama.expert_feed_forward_length");
  for (const char* key :
       {"general.name", "general.architecture", "tokenizer.ggml.model"}) {
    HeaderNumbers numbers = Small("llama");
    numbers.header().metadata[key] = {GgufType::kU64, uint64_t{1}};
    ExpectInvalid(numbers, key);
  }
}

TEST(ArchitecturesTest, HeadsThatNeedTheirLengthAndAreTooWideAreRefused) {
  HeaderNumbers odd = Small("llama");
  odd.Int("attention.head_count", 6).Int("attention.head_count_kv", 2);
  EXPECT_TRUE(ShapeOf(odd).ok());
  odd.header().metadata.erase("llama.attention.key_length");
  ExpectInvalid(odd, "llama.attention.key_length");  // 64 is not 6 heads
  ExpectInvalid(Small("llama").Int("attention.head_count", 1 << 16),
                "llama.attention.head_count");
}

TEST(ArchitecturesTest, NormsOfHeadsMayBeLeftToTheFile) {
  HeaderNumbers numbers = Small("glm4moe");
  GgufHeader& header = numbers.header();
  ASSERT_TRUE(
      AddTensors(header, {DType::kF16, DType::kF16, DType::kF16}, true).ok());
  EXPECT_EQ(header.FindTensor("blk.0.attn_q_norm.weight"), nullptr);
  for (const char* name : {"blk.0.attn_q_norm.weight", "attn"}) {
    GgufTensor norm = *header.FindTensor("blk.0.attn_norm.weight");
    norm.name = name;
    const auto head_dim = ShapeOf(Small("glm4moe"))->layers[0].head_dim;
    norm.ne[0] = head_dim;
    norm.bytes = 4 * head_dim;
    header.tensors.push_back(norm);
    EXPECT_EQ(ShapeFromGguf(header).ok(), std::string(name) != "attn");
  }
}

TEST(ArchitecturesTest, AModelThatIsTooLargeForInt64IsOutOfRange) {
  HeaderNumbers numbers = Small("llama");
  numbers.Int("block_count", ModelShape::kMaxLayers)
      .Int("embedding_length", ModelShape::kMaxDim)
      .Int("expert_count", ModelShape::kMaxExperts)
      .Int("expert_used_count", 1)
      .Int("expert_feed_forward_length", ModelShape::kMaxDim);
  EXPECT_TRUE(absl::IsOutOfRange(AddTensors(
      numbers.header(), {DType::kF32, DType::kF32, DType::kF32}, true)));
}

TEST(ArchitecturesTest, NumbersWithoutAVocabularyAreRefused) {
  HeaderNumbers numbers("llama");
  EXPECT_FALSE(ShapeOf(numbers).ok());
  HeaderNumbers without = Small("llama");
  without.header().metadata.erase("llama.vocab_size");
  ExpectInvalid(without, "llama.vocab_size");
}

}  // namespace
}  // namespace plimsoll::planner
