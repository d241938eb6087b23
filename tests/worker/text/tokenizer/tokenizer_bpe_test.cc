#include "worker/text/tokenizer/tokenizer_bpe.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/layout/memory_plan.h"
#include "tests/worker/text/tokenizer/encode.h"
#include "tests/worker/text/tokenizer/gguf_fixture.h"
#include "tests/worker/text/tokenizer/merge_slowly.h"
#include "worker/text/tokenizer/text_merge.h"

namespace plimsoll::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadWith(
    absl::string_view pre, std::vector<FixtureToken> tokens,
    const std::vector<std::string>& merges) {
  GgufFixture fixture;
  return AddVocab(fixture, tokens)
      .String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", pre)
      .Strings("tokenizer.ggml.merges", merges)
      .Load();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Load(
    std::vector<FixtureToken> tokens, const std::vector<std::string>& merges) {
  return LoadWith("gpt-2", std::move(tokens), merges);
}

TEST(BpeTokenizerTest, TheEarliestMergeGoesFirst) {
  const auto tokenizer =
      Load(ByteLevelVocab({{"bc"}, {"ab"}, {"abc"}}), {"b c", "a b", "ab c"});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(Encode(**tokenizer, "abc"), ElementsAre('a', 256));
  EXPECT_THAT(Encode(**tokenizer, "ab"), ElementsAre(257));
  EXPECT_THAT(Encode(**tokenizer, ""), IsEmpty());
}

TEST(BpeTokenizerTest, OfEqualMergesTheFirstCounts) {
  const auto tokenizer =
      Load(ByteLevelVocab({{"ab"}, {"bc"}}), {"a b", "b c", "a b"});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(Encode(**tokenizer, "abc"), ElementsAre(256, 'c'));
}

TEST(BpeTokenizerTest, MergesStayWithinAPiece) {
  const auto tokenizer = Load(ByteLevelVocab({{"a1"}}), {"a 1"});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(Encode(**tokenizer, "a1"), ElementsAre('a', '1'));
}

// A vocabulary of three letters whose merges are in any order, and what merging
// by the definition gives.
class RandomBpe {
 public:
  explicit RandomBpe(std::mt19937& random) {
    std::vector<std::string> made = {"a", "b", "c"};
    for (int i = 0; i < 24; ++i) {
      const std::string left = made[random() % made.size()];
      const std::string right = made[random() % made.size()];
      if (left.size() + right.size() > 9) continue;
      merges_.push_back(left + " " + right);
      made.push_back(left + right);
    }
    std::shuffle(merges_.begin(), merges_.end(), random);
    std::vector<FixtureToken> more;
    for (size_t i = 3; i < made.size(); ++i) {
      ids_.try_emplace(made[i], 256 + static_cast<int32_t>(more.size()));
      more.push_back({made[i]});
    }
    tokenizer_ = Load(ByteLevelVocab(more), merges_);
    for (uint32_t rank = 0; rank < merges_.size(); ++rank) {
      ranks_.try_emplace(merges_[rank], rank);
    }
  }

  const Tokenizer& tokenizer() const { return **tokenizer_; }

  std::vector<int32_t> EncodeSlowly(const std::string& word) const {
    const auto rank_of = [&](const std::string& left,
                             const std::string& right) {
      const auto found = ranks_.find(left + " " + right);
      return found == ranks_.end() ? kNoRank : found->second;
    };
    std::vector<int32_t> ids;
    for (const std::string& part : MergeSlowly(BytesOf(word), rank_of)) {
      ids.push_back(part.size() == 1 ? part[0] : ids_.at(part));
    }
    return ids;
  }

 private:
  std::vector<std::string> merges_;
  std::map<std::string, int32_t> ids_;     // ids of merged tokens
  std::map<std::string, uint32_t> ranks_;  // by merge
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer_;
};

TEST(BpeTokenizerTest, LongWordsMergeAsTheDefinitionSays) {
  std::mt19937 random(11);
  constexpr size_t kWindow = TextMerger::kWindow;
  for (int round = 0; round < 60; ++round) {
    const RandomBpe bpe(random);
    for (const size_t n : {size_t{20}, kWindow - 1, kWindow, kWindow + 1,
                           2 * kWindow + random() % kWindow}) {
      const std::string word = RandomWord(random, n, 1 + random() % 3);
      ASSERT_EQ(Encode(bpe.tokenizer(), word), bpe.EncodeSlowly(word)) << word;
    }
  }
}

TEST(BpeTokenizerTest, EveryByteComesBack) {
  const auto tokenizer = Load(ByteLevelVocab({}), {});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  std::string back;
  for (const int32_t id : Encode(**tokenizer, all)) {
    (*tokenizer)->AppendBytes(id, RenderSpecial::kNo, back);
  }
  EXPECT_EQ(back, all);
}

TEST(BpeTokenizerTest, BytesOutsideTheVocabularyAreDropped) {
  const auto tokenizer = Load({{"a"}}, {});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(Encode(**tokenizer, "zaz\xFF"), ElementsAre(0));
}

TEST(BpeTokenizerTest, MergingNeverMakesAControlToken) {
  const auto tokenizer = Load(
      ByteLevelVocab({{"EN"}, {"END", TokenType::kControl}}), {"E N", "EN D"});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(Encode(**tokenizer, "END"), ElementsAre('E', 'N', 'D'));
  EXPECT_THAT(EncodeWith(ParseSpecial::kYes, **tokenizer, "END"),
              ElementsAre(257));
}

TEST(BpeTokenizerTest, LlamaBpeTakesAWholePieceBeforeItMerges) {
  // Merging gives "abc" in two tokens; a space is U+0120 in a token's text.
  const std::vector<FixtureToken> tokens = ByteLevelVocab(
      {{"ab"}, {"bc"}, {"abc"}, {"\xC4\xA0x"}, {"END", TokenType::kControl}});
  for (const absl::string_view pre : {"llama-bpe", "qwen2"}) {
    const auto tokenizer = LoadWith(pre, tokens, {"a b", "b c"});
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    const std::vector<int32_t> ids = Encode(**tokenizer, "abc x");
    if (pre == "llama-bpe") {
      EXPECT_THAT(ids, ElementsAre(258, 259));
    } else {
      EXPECT_THAT(ids, ElementsAre(256, 'c', ' ', 'x'));
    }
    EXPECT_THAT(Encode(**tokenizer, "END"), ElementsAre('E', 'N', 'D'));
  }
}

TEST(BpeTokenizerTest, LlamaBpeBeginsWithBosUnlessTheFileSaysNo) {
  const auto load = [](absl::string_view pre, std::optional<bool> add_bos) {
    GgufFixture fixture;
    AddVocab(fixture, ByteLevelVocab({{"<s>", TokenType::kControl}}))
        .String("tokenizer.ggml.model", "gpt2")
        .String("tokenizer.ggml.pre", pre)
        .Strings("tokenizer.ggml.merges", {})
        .U32("tokenizer.ggml.bos_token_id", 256);
    if (add_bos) fixture.Bool("tokenizer.ggml.add_bos_token", *add_bos);
    return fixture.Load();
  };
  EXPECT_TRUE((*load("llama-bpe", std::nullopt))->add_bos());
  EXPECT_FALSE((*load("llama-bpe", false))->add_bos());
  EXPECT_FALSE((*load("qwen2", std::nullopt))->add_bos());
  EXPECT_TRUE((*load("qwen2", true))->add_bos());
}

TEST(BpeTokenizerTest, TextOutsideTheByteMappingStandsForItself) {
  const auto tokenizer = Load(ByteLevelVocab({{"\xE4\xBA\xAC"}, {"\xFF"}}), {});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::string out;
  (*tokenizer)->AppendBytes(256, RenderSpecial::kNo, out);
  (*tokenizer)->AppendBytes(257, RenderSpecial::kNo, out);
  EXPECT_EQ(out, "\xE4\xBA\xAC\xFF");
}

TEST(BpeTokenizerTest, BadMergesAreRefusedByIndex) {
  for (const std::string merge : {"ab", "a", " a", "a z\xFF", "a  b", ""}) {
    const absl::Status status =
        Load(ByteLevelVocab({{"ab"}}), {"a b", merge}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << merge;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("tokenizer.ggml.merges[1]"));
  }
}

TEST(BpeTokenizerTest, LongestMergeIsTheLimit) {
  const auto half = static_cast<size_t>(VocabTable::kMaxTokenBytes) / 2;
  const std::string x(half, 'x');
  EXPECT_TRUE(Load({{x}, {x + x}}, {x + " " + x}).ok());
  const std::string beyond(static_cast<size_t>(MergeTable::kMaxMergeBytes) + 1,
                           'x');
  const absl::Status status = Load({{"x"}}, {beyond}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("longer than"));
}

TEST(BpeTokenizerTest, APreTokenizerIsNeverGuessed) {
  const absl::Status unknown =
      LoadWith("jais-2", ByteLevelVocab({}), {}).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("jais-2"));
  GgufFixture fixture;
  const absl::Status missing = AddVocab(fixture, ByteLevelVocab({}))
                                   .String("tokenizer.ggml.model", "gpt2")
                                   .Strings("tokenizer.ggml.merges", {})
                                   .Load()
                                   .status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("tokenizer.ggml.pre"));
}

TEST(BpeTokenizerTest, SmallTablesStayWithinThePlan) {
  const auto tokenizer = LoadWith("smollm", {{"a"}}, {});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  planner::VocabShape shape;
  shape.model = "gpt2";
  shape.n_tokens = 1;
  shape.token_bytes = 1;
  EXPECT_LE((*tokenizer)->MemoryBytes(), planner::VocabBytes(shape));
}

}  // namespace
}  // namespace plimsoll::worker
