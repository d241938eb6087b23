// Shapes of good models, and one bad key or tensor a test.
#include "planner/model/model_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/planner/tiny_models.h"

namespace plimsoll::planner {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<ModelShape> ShapeOf(const GgufBuilder& builder) {
  const auto header = Parse(builder.Build());
  if (!header.ok()) return header.status();
  return ShapeFromGguf(*header);
}

void ExpectError(const GgufBuilder& builder, absl::StatusCode code,
                 const std::string& words) {
  const auto shape = ShapeOf(builder);
  ASSERT_FALSE(shape.ok()) << words;
  EXPECT_EQ(shape.status().code(), code) << shape.status();
  EXPECT_THAT(std::string(shape.status().message()), HasSubstr(words));
}

void ExpectInvalid(const GgufBuilder& builder, const std::string& words) {
  ExpectError(builder, absl::StatusCode::kInvalidArgument, words);
}

void ExpectUnimplemented(const GgufBuilder& builder, const std::string& words) {
  ExpectError(builder, absl::StatusCode::kUnimplemented, words);
}

// A tiny model whose `key` is left out.
TinyModel Without(const std::string& key) {
  TinyModel m;
  m.skip = {key};
  return m;
}

TEST(ModelShapeTest, ReadsLlama) {
  const auto shape = ShapeOf(BuilderOf({}));
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->architecture, "llama");
  EXPECT_EQ(shape->name, "tiny");
  EXPECT_EQ(shape->n_layers, 2);
  EXPECT_EQ(shape->vocab_size, 40);
  EXPECT_EQ(shape->vocab.model, "no_vocab");
  EXPECT_TRUE(shape->tied_output);
  ASSERT_EQ(shape->layers.size(), 2u);
  EXPECT_EQ(shape->layers[1].n_kv_heads, 2);
  EXPECT_EQ(shape->layers[1].head_dim, 16);
  EXPECT_EQ(shape->layers[1].ffn_dim, 96);
  EXPECT_EQ(shape->layers[1].window, 0);
  EXPECT_EQ(shape->layers[1].kv_source, 1);
  ASSERT_EQ(shape->weights.size(), 2u + 2 * 9);
  EXPECT_EQ(shape->weights[0].name, "token_embd.weight");
  EXPECT_EQ(shape->weights[0].rows, 40);
  EXPECT_FALSE(shape->weights[0].is_vector);
  EXPECT_TRUE(shape->weights[1].is_vector);
  EXPECT_EQ(shape->weights[1].rows, 1);
}

TEST(ModelShapeTest, Gemma3HasOneGlobalLayerInSix) {
  TinyModel m;
  m.architecture = "gemma3";
  m.n_layers = 13;
  m.window = 100;
  const auto shape = ShapeOf(BuilderOf(m));
  ASSERT_TRUE(shape.ok()) << shape.status();
  for (size_t il = 0; il < 13; ++il) {
    EXPECT_EQ(shape->layers[il].window, il % 6 == 5 ? 0 : 100) << il;
  }
}

TEST(ModelShapeTest, Gemma3TakesAPatternAsPeriodOrAsFlags) {
  TinyModel m;
  m.architecture = "gemma3";
  m.window = 100;
  m.n_layers = 3;
  const std::string key = "gemma3.attention.sliding_window_pattern";
  auto shape = ShapeOf(BuilderOf(m).U32(key, 2));
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->layers[0].window, 100);
  EXPECT_EQ(shape->layers[1].window, 0);
  EXPECT_EQ(shape->layers[2].window, 100);
  shape = ShapeOf(BuilderOf(m).Array<uint8_t>(key, GgufType::kBool, {0, 1, 1}));
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->layers[0].window, 0);
  EXPECT_EQ(shape->layers[1].window, 100);
  ExpectInvalid(BuilderOf(m).U32(key, 0), key);
  ExpectInvalid(BuilderOf(m).Array<uint8_t>(key, GgufType::kBool, {0, 1}), key);
  ExpectInvalid(BuilderOf(m).Array<uint8_t>(key, GgufType::kU8, {0, 1, 1}),
                key);
}

TEST(ModelShapeTest, Gemma3WithoutAWindowIsAllGlobal) {
  TinyModel m;
  m.architecture = "gemma3";
  const auto shape = ShapeOf(BuilderOf(m));
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->layers[0].window, 0);
}

TEST(ModelShapeTest, AWindowOfLlamaIsRefusedNotIgnored) {
  TinyModel m;
  m.window = 64;
  ExpectUnimplemented(BuilderOf(m), "llama.attention.sliding_window");
}

TEST(ModelShapeTest, OtherArchitecturesAreNamed) {
  TinyModel m;
  m.architecture = "mamba";
  ExpectUnimplemented(BuilderOf(m), "\"mamba\" is not supported (cohere2, ");
  ExpectInvalid(BuilderOf(Without("general.architecture")),
                "general.architecture");
  ExpectInvalid(
      BuilderOf(Without("general.architecture")).U32("general.architecture", 1),
      "general.architecture");
}

TEST(ModelShapeTest, RequiredKeysAreNamedWhenMissing) {
  for (const char* key : {"block_count", "context_length", "embedding_length",
                          "feed_forward_length", "attention.head_count",
                          "attention.layer_norm_rms_epsilon"}) {
    ExpectInvalid(BuilderOf(Without(key)),
                  absl::StrCat("\"llama.", key, "\" is missing"));
  }
}

TEST(ModelShapeTest, OptionalKeysHaveTheirDefaults) {
  for (const char* key :
       {"attention.key_length", "attention.value_length", "rope.freq_base"}) {
    EXPECT_TRUE(ShapeOf(BuilderOf(Without(key))).ok()) << key;
  }
  TinyModel m = Without("attention.head_count_kv");
  m.n_kv_heads = m.n_heads;
  const auto shape = ShapeOf(BuilderOf(m));
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->layers[0].n_kv_heads, m.n_heads);
}

TEST(ModelShapeTest, CountsOutsideTheirLimitsAreNamed) {
  for (const char* key : {"block_count", "context_length", "embedding_length",
                          "feed_forward_length", "attention.head_count",
                          "attention.head_count_kv", "attention.key_length",
                          "attention.value_length"}) {
    const std::string whole = absl::StrCat("llama.", key);
    const TinyModel m = Without(key);
    ExpectInvalid(BuilderOf(m).U32(whole, 0), whole);
    for (int64_t value :
         {int64_t{-1}, std::numeric_limits<int64_t>::min(),
          std::numeric_limits<int64_t>::max(), (int64_t{1} << 40) + 1}) {
      ExpectInvalid(BuilderOf(m).Raw(whole, GgufType::kI64,
                                     ByteWriter().Put(value).bytes()),
                    whole);
    }
    ExpectInvalid(BuilderOf(m).F32(whole, 1.0f), whole);
    ExpectInvalid(BuilderOf(m).Text(whole, "1"), whole);
  }
}

TEST(ModelShapeTest, LayersUpToTheLimitAndNotPastIt) {
  TinyModel m;
  m.n_layers = ModelShape::kMaxLayers;
  EXPECT_TRUE(ShapeOf(BuilderOf(m)).ok());
  m.n_layers += 1;
  ExpectInvalid(BuilderOf(m), "llama.block_count");
}

TEST(ModelShapeTest, ContextUpToTheLimitAndNotPastIt) {
  for (int64_t extra : {0, 1}) {
    const auto shape = ShapeOf(
        BuilderOf(Without("context_length"))
            .Raw("llama.context_length", GgufType::kU64,
                 ByteWriter().Put(ModelShape::kMaxContext + extra).bytes()));
    EXPECT_EQ(shape.ok(), extra == 0) << shape.status();
  }
}

TEST(ModelShapeTest, HeadDimIsAMultipleOfSixteenUpToItsLimit) {
  TinyModel m;
  m.n_layers = 1;
  for (uint32_t good : {16u, 48u, 512u}) {
    m.head_dim = good;
    m.dtype = DType::kF16;
    EXPECT_TRUE(ShapeOf(BuilderOf(m)).ok()) << good;
  }
  for (uint32_t bad : {8u, 15u, 24u, 513u, 528u}) {
    m.head_dim = bad;
    ExpectInvalid(BuilderOf(m), "llama.attention.key_length");
  }
}

TEST(ModelShapeTest, KeysAndValuesOfDifferentLengthsAreRefused) {
  ExpectUnimplemented(BuilderOf(Without("attention.value_length"))
                          .U32("llama.attention.value_length", 32),
                      "llama.attention.value_length");
}

TEST(ModelShapeTest, KvHeadsDivideHeads) {
  TinyModel m;
  m.n_kv_heads = 3;
  ExpectInvalid(BuilderOf(m), "llama.attention.head_count_kv");
}

TEST(ModelShapeTest, TakesArraysOfOneNumberALayer) {
  const auto build = [](const char* key, const std::vector<int32_t>& values) {
    return BuilderOf(Without(key))
        .Array(absl::StrCat("llama.", key), GgufType::kI32, values);
  };
  EXPECT_TRUE(ShapeOf(build("feed_forward_length", {96, 96})).ok());
  EXPECT_TRUE(ShapeOf(build("feed_forward_length", {96, 96, 7})).ok());
  EXPECT_TRUE(ShapeOf(build("attention.head_count_kv", {2, 2})).ok());
  EXPECT_TRUE(ShapeOf(build("attention.head_count", {4, 4})).ok());
  ExpectInvalid(build("feed_forward_length", {96}), "feed_forward_length");
  ExpectInvalid(build("feed_forward_length", {}), "feed_forward_length");
  ExpectInvalid(build("feed_forward_length", {96, 0}),
                "feed_forward_length[1]");
  ExpectInvalid(build("feed_forward_length", {96, -1}),
                "feed_forward_length[1]");
  ExpectInvalid(build("feed_forward_length", {96, 64}), "blk.1.ffn_gate");
  ExpectUnimplemented(build("attention.head_count", {4, 2}), "head_count");
  ExpectInvalid(
      BuilderOf(Without("feed_forward_length"))
          .Array<float>("llama.feed_forward_length", GgufType::kF32,
                        {96.0f, std::numeric_limits<float>::quiet_NaN()}),
      "feed_forward_length[1]");
}

TEST(ModelShapeTest, FloatsAreFiniteAndPositive) {
  for (const char* key :
       {"attention.layer_norm_rms_epsilon", "rope.freq_base"}) {
    const std::string whole = absl::StrCat("llama.", key);
    for (float bad : {0.0f, -1.0f, std::numeric_limits<float>::infinity(),
                      std::numeric_limits<float>::quiet_NaN()}) {
      ExpectInvalid(BuilderOf(Without(key)).F32(whole, bad), whole);
    }
    ExpectInvalid(BuilderOf(Without(key)).U32(whole, 1), whole);
  }
}

TEST(ModelShapeTest, RotatedDimensionsAreEvenAndWithinAHead) {
  const std::string key = "llama.rope.dimension_count";
  EXPECT_TRUE(ShapeOf(BuilderOf({}).U32(key, 16)).ok());
  EXPECT_TRUE(ShapeOf(BuilderOf({}).U32(key, 8)).ok());
  for (uint32_t bad : {0u, 1u, 15u, 17u, 18u}) {
    ExpectInvalid(BuilderOf({}).U32(key, bad), key);
  }
}

TEST(ModelShapeTest, EveryMissingTensorIsNamed) {
  TinyModel m;
  m.architecture = "gemma3";
  const auto header = Parse(BuilderOf(m).Build());
  ASSERT_TRUE(header.ok());
  for (const GgufTensor& tensor : header->tensors) {
    m.skip = {tensor.name};
    ExpectInvalid(BuilderOf(m),
                  absl::StrCat("tensor \"", tensor.name, "\" is missing"));
  }
}

TEST(ModelShapeTest, EveryTensorHasExactlyItsShape) {
  TinyModel m;
  m.has_vocab = true;
  m.architecture = "gemma3";
  const auto header = Parse(BuilderOf(m).Build());
  ASSERT_TRUE(header.ok());
  for (const GgufTensor& tensor : header->tensors) {
    m.skip = {tensor.name};
    for (size_t dim = 0; dim < 3; ++dim) {
      std::vector<uint64_t> ne;
      for (size_t i = 0; i < 3; ++i) {
        ne.push_back(static_cast<uint64_t>(tensor.ne[i]));
      }
      ne[dim] += 32;
      ExpectInvalid(BuilderOf(m).Tensor(tensor.name, tensor.dtype, ne),
                    tensor.name);
    }
  }
}

TEST(ModelShapeTest, OptionalTensorsMayBeThere) {
  auto shape =
      ShapeOf(BuilderOf({}).Tensor("output.weight", DType::kQ8_0, {64, 40}));
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_FALSE(shape->tied_output);
  shape = ShapeOf(BuilderOf({}).Tensor("rope_freqs.weight", DType::kF32, {8}));
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_TRUE(shape->weights.back().is_vector);
  ExpectInvalid(BuilderOf({}).Tensor("rope_freqs.weight", DType::kF32, {16}),
                "rope_freqs.weight");
}

TEST(ModelShapeTest, UnknownTensorsAndBiasesAreNamed) {
  ExpectInvalid(BuilderOf({}).Tensor("blk.0.what.weight", DType::kF32, {8}),
                "blk.0.what.weight");
  ExpectInvalid(BuilderOf({}).Tensor("blk.2.attn_q.weight", DType::kF32, {8}),
                "blk.2.attn_q.weight");
  ExpectInvalid(BuilderOf({}).Tensor("blk.00.attn_q.weight", DType::kF32, {8}),
                "blk.00.attn_q.weight");
  TinyModel m;
  m.architecture = "gemma3";
  ExpectUnimplemented(
      BuilderOf(m).Tensor("blk.0.attn_q.bias", DType::kF32, {64}),
      "blk.0.attn_q.bias");
}

TEST(ModelShapeTest, VectorsAreOfAFloatType) {
  const TinyModel m = Without("output_norm.weight");
  for (DType good : {DType::kF32, DType::kF16, DType::kBF16}) {
    EXPECT_TRUE(
        ShapeOf(BuilderOf(m).Tensor("output_norm.weight", good, {64})).ok());
  }
  ExpectInvalid(BuilderOf(m).Tensor("output_norm.weight", DType::kQ8_0, {64}),
                "output_norm.weight");
}

TEST(ModelShapeTest, MatricesOfAnyKnownTypeAreDescribed) {
  TinyModel m;
  m.dtype = DType::kQ4_0;  // whether a device can run it is the plan's business
  EXPECT_TRUE(ShapeOf(BuilderOf(m)).ok());
}

TEST(ModelShapeTest, TheVocabularyIsTheEmbeddingsSize) {
  const auto shape = ShapeOf(BuilderOf({}).U32("llama.vocab_size", 40));
  ASSERT_TRUE(shape.ok()) << shape.status();
  ExpectInvalid(BuilderOf({}).U32("llama.vocab_size", 41), "token_embd.weight");
  TinyModel m = Without("token_embd.weight");
  m.has_vocab = true;
  ExpectInvalid(
      BuilderOf(m).Tensor("token_embd.weight", DType::kQ8_0, {64, 41}),
      "token_embd.weight");
}

TEST(ModelShapeTest, VocabularyUpToItsLimitAndNotPastIt) {
  for (uint64_t extra : {0u, 1u}) {
    GgufBuilder builder = BuilderOf(Without("token_embd.weight"));
    const auto rows = static_cast<uint64_t>(ModelShape::kMaxVocab) + extra;
    builder.Tensor("token_embd.weight", DType::kF32, {64, rows});
    const std::string file = builder.Header();
    HeaderSource source(file, int64_t{1} << 40);
    const auto header = ReadGgufHeader(source);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(ShapeFromGguf(*header).ok(), extra == 0);
  }
}

TEST(ModelShapeTest, WidthsUpToTheirLimitAndNotPastIt) {
  for (uint32_t extra : {0u, 32u}) {
    TinyModel m;
    m.n_layers = 1;
    m.ffn_dim = (1 << 20) + extra;
    const std::string file = BuilderOf(m).Header();
    HeaderSource source(file, int64_t{1} << 40);
    const auto header = ReadGgufHeader(source);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(ShapeFromGguf(*header).ok(), extra == 0);
  }
}

}  // namespace
}  // namespace plimsoll::planner
