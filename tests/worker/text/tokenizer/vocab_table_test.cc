#include "worker/text/tokenizer/vocab_table.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/text/tokenizer/gguf_fixture.h"

namespace plimsoll::worker {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<VocabTable> LoadWith(VocabTable::Scores scores,
                                    const GgufFixture& fixture) {
  const std::vector<std::byte> bytes = fixture.Bytes();
  planner::MemorySource source(bytes);
  auto header = planner::ReadGgufHeader(source);
  if (!header.ok()) return header.status();
  return VocabTable::Load(*header, source, scores);
}

absl::StatusOr<VocabTable> Load(const GgufFixture& fixture) {
  return LoadWith(VocabTable::Scores::kRead, fixture);
}

void ExpectRefused(const GgufFixture& fixture, const std::string& key) {
  const absl::Status status = Load(fixture).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(key));
}

TEST(VocabTableTest, FindsEveryTokenByItsText) {
  GgufFixture fixture;
  std::vector<FixtureToken> tokens;
  for (int i = 0; i < 5000; ++i) {
    tokens.push_back({absl::StrCat("t", i * i)});
  }
  const auto vocab = Load(AddVocab(fixture, tokens));
  ASSERT_TRUE(vocab.ok()) << vocab.status();
  for (int32_t id = 0; id < vocab->size(); ++id) {
    ASSERT_EQ(vocab->Find(tokens[static_cast<size_t>(id)].text), id);
  }
  EXPECT_EQ(vocab->Find("t2"), -1);
  EXPECT_EQ(vocab->Find(""), -1);
}

TEST(VocabTableTest, OfEqualTextsTheLowestIdIsFound) {
  GgufFixture fixture;
  const auto vocab = Load(AddVocab(fixture, {{"x"}, {""}, {"a"}, {"a"}, {""}}));
  ASSERT_TRUE(vocab.ok()) << vocab.status();
  EXPECT_EQ(vocab->Find("a"), 2);
  EXPECT_EQ(vocab->Text(3), "a");
  EXPECT_EQ(vocab->Text(4), "");
}

TEST(VocabTableTest, TextsMayHoldAnyBytes) {
  GgufFixture fixture;
  const std::string nul("\0", 1);
  const auto vocab = Load(AddVocab(fixture, {{nul}, {"\xFF\xC0"}}));
  ASSERT_TRUE(vocab.ok()) << vocab.status();
  EXPECT_EQ(vocab->Find(nul), 0);
  EXPECT_EQ(vocab->Find("\xFF\xC0"), 1);
}

TEST(VocabTableTest, WithoutTypesEveryTokenIsNormal) {
  const auto vocab =
      LoadWith(VocabTable::Scores::kNone,
               GgufFixture().Strings("tokenizer.ggml.tokens", {"a", "<s>"}));
  ASSERT_TRUE(vocab.ok()) << vocab.status();
  EXPECT_EQ(vocab->Type(1), TokenType::kNormal);
}

TEST(VocabTableTest, MissingOrShortTablesAreRefusedByKey) {
  ExpectRefused(GgufFixture(), "tokenizer.ggml.tokens");
  ExpectRefused(GgufFixture().Strings("tokenizer.ggml.tokens", {}),
                "tokenizer.ggml.tokens");
  ExpectRefused(GgufFixture().Strings("tokenizer.ggml.tokens", {"a"}),
                "tokenizer.ggml.scores");
  ExpectRefused(GgufFixture()
                    .Strings("tokenizer.ggml.tokens", {"a", "b"})
                    .I32s("tokenizer.ggml.token_type", {1}),
                "tokenizer.ggml.token_type");
  ExpectRefused(GgufFixture()
                    .Strings("tokenizer.ggml.tokens", {"a", "b"})
                    .F32s("tokenizer.ggml.scores", {1}),
                "tokenizer.ggml.scores");
  ExpectRefused(GgufFixture().I32s("tokenizer.ggml.tokens", {1}),
                "tokenizer.ggml.tokens");
}

TEST(VocabTableTest, ValuesOutOfRangeAreRefusedByKey) {
  for (const int32_t type : {-1, 7}) {
    ExpectRefused(GgufFixture()
                      .Strings("tokenizer.ggml.tokens", {"a"})
                      .I32s("tokenizer.ggml.token_type", {type}),
                  "tokenizer.ggml.token_type[0]");
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ExpectRefused(GgufFixture()
                    .Strings("tokenizer.ggml.tokens", {"a"})
                    .F32s("tokenizer.ggml.scores", {nan}),
                "tokenizer.ggml.scores[0]");
}

TEST(VocabTableTest, ByteTokensHaveExactlyTwoHexDigits) {
  EXPECT_EQ(ParseByteToken("<0x00>"), 0);
  EXPECT_EQ(ParseByteToken("<0xFf>"), 255);
  for (const std::string text : {"<0x-1>", "<0x1>", "<0x123>", "<0xG0>",
                                 "<0X41>", "0x41", "<0x41", "<0x 1>", ""}) {
    EXPECT_EQ(ParseByteToken(text), -1) << text;
    if (text.empty()) continue;
    GgufFixture fixture;
    ExpectRefused(AddVocab(fixture, {{text, TokenType::kByte}}),
                  "tokenizer.ggml.tokens[0]");
  }
}

TEST(VocabTableTest, LongestTokenIsTheLimit) {
  const auto limit = static_cast<size_t>(VocabTable::kMaxTokenBytes);
  GgufFixture at;
  EXPECT_TRUE(Load(AddVocab(at, {{std::string(limit, 'x')}})).ok());
  GgufFixture beyond;
  ExpectRefused(AddVocab(beyond, {{std::string(limit + 1, 'x')}}),
                "tokenizer.ggml.tokens[0]");
}

}  // namespace
}  // namespace plimsoll::worker
