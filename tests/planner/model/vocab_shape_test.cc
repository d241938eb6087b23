// The vocabulary's declaration: lengths, types and special ids.
#include "planner/model/vocab_shape.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/planner/tiny_models.h"

namespace plimsoll::planner {
namespace {

TinyModel Spm(std::vector<std::string> skip) {
  TinyModel m;
  m.has_vocab = true;
  m.skip = std::move(skip);
  return m;
}

absl::StatusOr<VocabShape> VocabOf(const GgufBuilder& builder) {
  const auto header = Parse(builder.Build());
  if (!header.ok()) return header.status();
  return ReadVocabShape(*header);
}

void ExpectNamed(const GgufBuilder& builder, const std::string& key) {
  const auto vocab = VocabOf(builder);
  EXPECT_TRUE(absl::IsInvalidArgument(vocab.status())) << vocab.status();
  EXPECT_NE(vocab.status().message().find(key), std::string::npos)
      << vocab.status();
}

TEST(VocabShapeTest, CountsTokensAndTheirBytes) {
  const auto vocab = VocabOf(BuilderOf(Spm({})));
  ASSERT_TRUE(vocab.ok()) << vocab.status();
  EXPECT_EQ(vocab->model, "llama");
  EXPECT_EQ(vocab->n_tokens, 40);
  EXPECT_EQ(vocab->token_bytes, 10 * 2 + 30 * 3);  // "t0" ... "t39"
  EXPECT_EQ(vocab->n_merges, 0);
}

TEST(VocabShapeTest, CountsMergesOfRankedTokenizers) {
  for (const char* model : {"gpt2", "gemma4"}) {
    const auto vocab =
        VocabOf(BuilderOf(Spm({"model"}))
                    .Text("tokenizer.ggml.model", model)
                    .Strings("tokenizer.ggml.merges", {"a b", "ab c"}));
    ASSERT_TRUE(vocab.ok()) << vocab.status();
    EXPECT_EQ(vocab->model, model);
    EXPECT_EQ(vocab->n_merges, 2);
    EXPECT_EQ(vocab->merge_bytes, 7);
    ExpectNamed(BuilderOf(Spm({"model"})).Text("tokenizer.ggml.model", model),
                "tokenizer.ggml.merges");
  }
}

TEST(VocabShapeTest, ModelsWithoutAVocabularyCanBePlanned) {
  for (const char* name : {"no_vocab", "none"}) {
    const auto vocab =
        VocabOf(BuilderOf(Spm({"model"})).Text("tokenizer.ggml.model", name));
    ASSERT_TRUE(vocab.ok()) << vocab.status();
    EXPECT_EQ(vocab->model, "no_vocab");
    EXPECT_EQ(vocab->n_tokens, 0);
  }
}

TEST(VocabShapeTest, OtherTokenizersAreRefusedByName) {
  const auto vocab =
      VocabOf(BuilderOf(Spm({"model"})).Text("tokenizer.ggml.model", "bert"));
  EXPECT_TRUE(absl::IsUnimplemented(vocab.status()));
  EXPECT_NE(vocab.status().message().find("bert"), std::string::npos);
  ExpectNamed(BuilderOf(Spm({"model"})), "tokenizer.ggml.model");
}

TEST(VocabShapeTest, TokensAreANonEmptyArrayOfStrings) {
  const std::string key = "tokenizer.ggml.tokens";
  ExpectNamed(BuilderOf(Spm({"tokens"})), key);
  ExpectNamed(BuilderOf(Spm({"tokens"})).Strings(key, {}), key);
  ExpectNamed(
      BuilderOf(Spm({"tokens"})).Array<int32_t>(key, GgufType::kI32, {1, 2}),
      key);
  ExpectNamed(BuilderOf(Spm({"tokens"})).Text(key, "a"), key);
}

TEST(VocabShapeTest, CompanionsAreLongEnoughAndOfTheirType) {
  const std::string scores = "tokenizer.ggml.scores";
  const std::string types = "tokenizer.ggml.token_type";
  EXPECT_TRUE(VocabOf(BuilderOf(Spm({"scores", "token_type"}))).ok());
  EXPECT_TRUE(
      VocabOf(BuilderOf(Spm({"token_type"}))
                  .Array(types, GgufType::kU32, std::vector<uint32_t>(40)))
          .ok());
  ExpectNamed(BuilderOf(Spm({"scores"})).Text(scores, "1"), scores);
  ExpectNamed(BuilderOf(Spm({"scores"}))
                  .Array(scores, GgufType::kF32, std::vector<float>(39)),
              scores);
  // One byte an element, which other readers took for four.
  ExpectNamed(BuilderOf(Spm({"scores"}))
                  .Array(scores, GgufType::kU8, std::vector<uint8_t>(40)),
              scores);
  ExpectNamed(BuilderOf(Spm({"token_type"}))
                  .Array(types, GgufType::kU8, std::vector<uint8_t>(40)),
              types);
  ExpectNamed(BuilderOf(Spm({"token_type"}))
                  .Array(types, GgufType::kI32, std::vector<int32_t>(39)),
              types);
}

TEST(VocabShapeTest, SpecialIdsAreTokens) {
  for (const char* name :
       {"bos_token_id", "eos_token_id", "eot_token_id", "padding_token_id",
        "unknown_token_id", "fim_pre_token_id"}) {
    const std::string key = absl::StrCat("tokenizer.ggml.", name);
    const TinyModel m = Spm({"bos_token_id"});
    EXPECT_TRUE(VocabOf(BuilderOf(m).U32(key, 39)).ok());
    ExpectNamed(BuilderOf(m).U32(key, 40), key);
    ExpectNamed(BuilderOf(m).U32(key, 0xFFFFFFFF), key);
    ExpectNamed(BuilderOf(m).Text(key, "1"), key);
    ExpectNamed(BuilderOf(m).Raw(key, GgufType::kI32,
                                 ByteWriter().Put(int32_t{-1}).bytes()),
                key);
  }
}

// A header that came without its tokenizer, with what it counted.
GgufHeader Counted(int64_t n_tokens) {
  GgufHeader header = {};
  header.metadata["plimsoll.vocab.model"] = {GgufType::kString,
                                             std::string("gpt2")};
  header.metadata["plimsoll.vocab.n_tokens"] = {GgufType::kI64, n_tokens};
  for (const char* key : {"token_bytes", "n_merges", "merge_bytes"}) {
    header.metadata[absl::StrCat("plimsoll.vocab.", key)] = {GgufType::kU64,
                                                             uint64_t{7}};
  }
  return header;
}

TEST(VocabShapeTest, CountsThatTravelledAreTaken) {
  const auto vocab = ReadVocabShape(Counted(ModelShape::kMaxVocab));
  ASSERT_TRUE(vocab.ok()) << vocab.status();
  EXPECT_EQ(vocab->model, "gpt2");
  EXPECT_EQ(vocab->n_tokens, ModelShape::kMaxVocab);
  EXPECT_EQ(vocab->merge_bytes, 7);
}

TEST(VocabShapeTest, CountsThatMakeNoSenseAreNamed) {
  for (const int64_t bad : {ModelShape::kMaxVocab + 1, int64_t{-1}}) {
    const auto vocab = ReadVocabShape(Counted(bad));
    EXPECT_TRUE(absl::IsInvalidArgument(vocab.status()));
    EXPECT_NE(vocab.status().message().find("plimsoll.vocab.n_tokens"),
              absl::string_view::npos);
  }
  GgufHeader header = Counted(1);
  header.metadata.erase("plimsoll.vocab.merge_bytes");
  EXPECT_TRUE(absl::IsInvalidArgument(ReadVocabShape(header).status()));
  for (const char* key : {"plimsoll.vocab.model", "plimsoll.vocab.n_merges"}) {
    GgufHeader wrong = Counted(1);
    wrong.metadata[key] = {GgufType::kF64, 1.0};
    EXPECT_NE(ReadVocabShape(wrong).status().message().find(key),
              absl::string_view::npos);
  }
}

}  // namespace
}  // namespace plimsoll::planner
