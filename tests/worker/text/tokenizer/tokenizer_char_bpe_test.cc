// The "gemma4" tokenizer: merges of characters by rank, spaces as U+2581.
#include "worker/text/tokenizer/tokenizer_char_bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "planner/layout/memory_plan.h"
#include "planner/model/vocab_shape.h"
#include "tests/worker/text/tokenizer/encode.h"
#include "tests/worker/text/tokenizer/gguf_fixture.h"
#include "tests/worker/text/tokenizer/merge_slowly.h"

namespace plimsoll::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kMarkText = "\xE2\x96\x81";

// Special tokens at Gemma 4's ids, then 256 byte tokens, then `more`.
constexpr int32_t kByteIds = 5;
constexpr int32_t kMoreIds = kByteIds + 256;
std::vector<FixtureToken> Gemma4Vocab(const std::vector<std::string>& more) {
  std::vector<FixtureToken> tokens = {{"<pad>", TokenType::kControl},
                                      {"<eos>", TokenType::kControl},
                                      {"<bos>", TokenType::kControl},
                                      {"<unk>", TokenType::kControl},
                                      {"<turn|>", TokenType::kControl}};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back({absl::StrFormat("<0x%02X>", byte), TokenType::kByte});
  }
  for (const std::string& text : more) tokens.push_back({text});
  return tokens;
}

GgufFixture Gemma4Fixture(const std::vector<FixtureToken>& tokens,
                          const std::vector<std::string>& merges) {
  GgufFixture fixture;
  AddVocab(fixture, tokens)
      .String("tokenizer.ggml.model", "gemma4")
      .Strings("tokenizer.ggml.merges", merges);
  return fixture;
}

std::unique_ptr<Tokenizer> MakeGemma4(const std::vector<FixtureToken>& tokens,
                                      const std::vector<std::string>& merges) {
  auto tokenizer = Gemma4Fixture(tokens, merges).Load();
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

TEST(CharBpeTokenizerTest, TheLowestRankMergesFirstWhateverTheTokens) {
  // "abc" is a token, but no merge makes it of "ab" and "c".
  const auto tokenizer = MakeGemma4(
      Gemma4Vocab({"a", "b", "c", "ab", "bc", "abc"}), {"b c", "a b", "a bc"});
  EXPECT_THAT(Encode(*tokenizer, "abc"), ElementsAre(kMoreIds + 5));
  EXPECT_THAT(Encode(*tokenizer, "ab"), ElementsAre(kMoreIds + 3));
  EXPECT_THAT(Encode(*tokenizer, "aab"), ElementsAre(kMoreIds, kMoreIds + 3));
  const auto other = MakeGemma4(Gemma4Vocab({"a", "b", "c", "ab", "bc", "abc"}),
                                {"a b", "b c", "a bc"});
  EXPECT_THAT(Encode(*other, "abc"), ElementsAre(kMoreIds + 3, kMoreIds + 2));
}

TEST(CharBpeTokenizerTest, SpacesAreMarkedAndNoneIsAdded) {
  const auto tokenizer = MakeGemma4(
      Gemma4Vocab({kMarkText, "a", kMarkText + "a", kMarkText + kMarkText}),
      {kMarkText + " a", kMarkText + " " + kMarkText});
  EXPECT_THAT(Encode(*tokenizer, "a a"),
              ElementsAre(kMoreIds + 1, kMoreIds + 2));
  EXPECT_THAT(Encode(*tokenizer, " a"), ElementsAre(kMoreIds + 2));
  EXPECT_THAT(Encode(*tokenizer, "   "), ElementsAre(kMoreIds + 3, kMoreIds));
  EXPECT_EQ(tokenizer->Decode(Encode(*tokenizer, " a  a"), RenderSpecial::kNo),
            " a  a");
}

TEST(CharBpeTokenizerTest, RunsOfNewlinesAreWholeOrMerged) {
  const auto tokenizer =
      MakeGemma4(Gemma4Vocab({"\n", "\n\n", "\n\n\n\n", "a", "a\n"}),
                 {"a \n", "\n \n", "\n\n \n\n"});
  // No merge reaches from a line to its end.
  EXPECT_THAT(Encode(*tokenizer, "a\na"),
              ElementsAre(kMoreIds + 3, kMoreIds, kMoreIds + 3));
  EXPECT_THAT(Encode(*tokenizer, "\n\n\n\n"), ElementsAre(kMoreIds + 2));
  EXPECT_THAT(Encode(*tokenizer, "\n\n\na"),
              ElementsAre(kMoreIds + 1, kMoreIds, kMoreIds + 3));
  // A run that is a token is not merged, even if no merge makes it.
  const auto whole = MakeGemma4(Gemma4Vocab({"\n", "\n\n"}), {});
  EXPECT_THAT(Encode(*whole, "\n\n"), ElementsAre(kMoreIds + 1));
}

TEST(CharBpeTokenizerTest, WhatIsNoTokenBecomesBytes) {
  const auto tokenizer = MakeGemma4(Gemma4Vocab({"a", "\xC3\xA4"}), {});
  EXPECT_THAT(Encode(*tokenizer, "a\xC3\xA4\xC3\xB6 z"),
              ElementsAre(kMoreIds, kMoreIds + 1, kByteIds + 0xC3,
                          kByteIds + 0xB6, kByteIds + 0xE2, kByteIds + 0x96,
                          kByteIds + 0x81, kByteIds + 'z'));
  // Ill-formed text too, and a character that the text's end cuts off.
  EXPECT_THAT(Encode(*tokenizer, "\xFF\xE2\x96"),
              ElementsAre(kByteIds + 0xFF, kByteIds + 0xE2, kByteIds + 0x96));
}

TEST(CharBpeTokenizerTest, TextNeverMergesIntoAControlToken) {
  std::vector<FixtureToken> tokens = Gemma4Vocab({"a", "b"});
  tokens.push_back({"ab", TokenType::kControl});
  const auto tokenizer = MakeGemma4(tokens, {"a b"});
  EXPECT_THAT(Encode(*tokenizer, "ab"), ElementsAre(kMoreIds, kMoreIds + 1));
  EXPECT_THAT(EncodeWith(ParseSpecial::kYes, *tokenizer, "ab"),
              ElementsAre(kMoreIds + 2));
}

TEST(CharBpeTokenizerTest, BosComesFirstWhateverTheFileSays) {
  GgufFixture fixture = Gemma4Fixture(Gemma4Vocab({"a"}), {});
  fixture.Bool("tokenizer.ggml.add_bos_token", false);
  const auto tokenizer = fixture.Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_TRUE((*tokenizer)->add_bos());
  EXPECT_THAT(*(*tokenizer)->EncodeWithBos("a", ParseSpecial::kNo),
              ElementsAre(2, kMoreIds));
}

TEST(CharBpeTokenizerTest, RepliesEndAtTheTurnAndWhereAToolIsAsked) {
  std::vector<FixtureToken> tokens = Gemma4Vocab({"</s>"});
  tokens.push_back({"<|tool_response>", TokenType::kUserDefined});
  const auto tokenizer = MakeGemma4(tokens, {});
  EXPECT_THAT(tokenizer->end_tokens(), ElementsAre(1, 4, kMoreIds + 1));
}

TEST(CharBpeTokenizerTest, MergesAreRequiredAndCheckedByIndex) {
  GgufFixture fixture;
  AddVocab(fixture, Gemma4Vocab({"a"}))
      .String("tokenizer.ggml.model", "gemma4");
  EXPECT_THAT(std::string(fixture.Load().status().message()),
              HasSubstr("tokenizer.ggml.merges is missing"));
  EXPECT_THAT(std::string(Gemma4Fixture(Gemma4Vocab({"a", "b"}), {"a b"})
                              .Load()
                              .status()
                              .message()),
              HasSubstr("tokenizer.ggml.merges[0]"));
}

// Beside merging as it is defined, with random merges.
TEST(CharBpeTokenizerTest, EqualsSlowMergingOnRandomVocabularies) {
  const std::vector<std::string> chars = {"a", "b", kMarkText, "\xC3\xA4",
                                          "\xE2\x80\xA6"};
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    std::vector<std::string> texts = chars;
    std::map<std::pair<std::string, std::string>, uint32_t> ranks;
    std::vector<std::string> merges;
    for (int i = 0; i < 60; ++i) {
      const std::string left = texts[random() % texts.size()];
      const std::string right = texts[random() % texts.size()];
      if (left.size() + right.size() > 24) continue;
      if (!ranks.emplace(std::pair(left, right), merges.size()).second) {
        continue;
      }
      merges.push_back(left + " " + right);
      texts.push_back(left + right);
    }
    const auto tokenizer = MakeGemma4(Gemma4Vocab(texts), merges);
    for (const size_t n : {1u, 3u, 20u, 300u, 2'000u}) {
      std::vector<std::string> parts;
      std::string text;
      for (size_t i = 0; i < n; ++i) {
        parts.push_back(chars[random() % chars.size()]);
        text += parts.back() == kMarkText ? " " : parts.back();
      }
      const auto merged = MergeSlowly(
          parts, [&](const std::string& left, const std::string& right) {
            const auto it = ranks.find({left, right});
            return it == ranks.end() ? kNoRank : it->second;
          });
      std::vector<int32_t> expected;
      for (const std::string& part : merged) {
        expected.push_back(*tokenizer->Find(part));
      }
      ASSERT_EQ(Encode(*tokenizer, text), expected) << round << ", " << n;
    }
  }
}

TEST(CharBpeTokenizerTest, TablesStayWithinThePlan) {
  std::vector<std::string> texts = {"a"};
  std::vector<std::string> merges;
  // Merges are twice as many as tokens, as in Gemma 4's own tables.
  std::mt19937 random(6);
  std::set<std::string> seen(texts.begin(), texts.end());
  std::set<std::string> seen_merges;
  while (merges.size() < 20'000) {
    std::string left = RandomWord(random, 1 + random() % 4, 12);
    std::string right = RandomWord(random, 1 + random() % 4, 12);
    for (const std::string& text : {left, right, left + right}) {
      if (seen.insert(text).second) texts.push_back(text);
    }
    if (seen_merges.insert(left + " " + right).second) {
      merges.push_back(left + " " + right);
    }
  }
  const GgufFixture fixture = Gemma4Fixture(Gemma4Vocab(texts), merges);
  const auto header = fixture.Header();
  ASSERT_TRUE(header.ok());
  const auto shape = planner::ReadVocabShape(*header);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->n_merges, std::ssize(merges));
  const auto tokenizer = fixture.Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_LE((*tokenizer)->MemoryBytes(), planner::VocabBytes(*shape));
}

}  // namespace
}  // namespace plimsoll::worker
