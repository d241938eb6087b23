#include "worker/text/tokenizer/tokenizer_spm.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
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

constexpr TokenType kByte = TokenType::kByte;
const std::string kMark = "\xE2\x96\x81";

std::unique_ptr<Tokenizer> MakeWith(bool add_space_prefix,
                                    const std::vector<FixtureToken>& tokens) {
  GgufFixture fixture;
  AddVocab(fixture, tokens)
      .String("tokenizer.ggml.model", "llama")
      .Bool("tokenizer.ggml.add_space_prefix", add_space_prefix)
      .Bool("tokenizer.ggml.add_bos_token", true)
      .U32("tokenizer.ggml.bos_token_id", 1)
      .U32("tokenizer.ggml.eos_token_id", 2);
  auto tokenizer = fixture.Load();
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::unique_ptr<Tokenizer> Make(const std::vector<FixtureToken>& tokens) {
  return MakeWith(/*add_space_prefix=*/false, tokens);
}

std::vector<FixtureToken> Vocab(std::vector<FixtureToken> more) {
  std::vector<FixtureToken> tokens = {{"<unk>", TokenType::kUnknown},
                                      {"<bos>", TokenType::kControl, -1000},
                                      {"<eos>", TokenType::kControl, -1000}};
  for (FixtureToken& token : more) tokens.push_back(std::move(token));
  return tokens;
}

TEST(SpmTokenizerTest, TheHighestScoreMergesFirst) {
  const auto tokenizer = Make(Vocab({{"a"},
                                     {"b"},
                                     {"c"},
                                     {"ab", TokenType::kNormal, -2},
                                     {"bc", TokenType::kNormal, -1}}));
  EXPECT_THAT(Encode(*tokenizer, "abc"), ElementsAre(3, 7));
}

TEST(SpmTokenizerTest, EqualScoresMergeFromTheLeftAndZerosAreEqual) {
  const auto tokenizer = Make(Vocab({{"a"},
                                     {"b"},
                                     {"c"},
                                     {"ab", TokenType::kNormal, -0.0f},
                                     {"bc", TokenType::kNormal, 0.0f}}));
  EXPECT_THAT(Encode(*tokenizer, "abc"), ElementsAre(6, 5));
  EXPECT_THAT(Encode(*tokenizer, ""), IsEmpty());
}

// Tokens of letters, a character of two bytes and spaces, of any scores; one
// letter may be in longer tokens only.
TEST(SpmTokenizerTest, LongTextsMergeAsTheDefinitionSays) {
  const std::vector<std::string> chars = {"a", "b", "\xC3\xA9", kMark};
  std::mt19937 random(13);
  constexpr size_t kWindow = TextMerger::kWindow;
  for (int round = 0; round < 60; ++round) {
    const size_t n_chars = 2 + random() % (chars.size() - 1);
    const auto any = [&](size_t n) {
      std::vector<std::string> text;
      for (; n > 0; --n) text.push_back(chars[random() % n_chars]);
      return text;
    };
    std::vector<FixtureToken> tokens;
    for (size_t byte = 0; byte < 256; ++byte) {
      constexpr absl::string_view kHex = "0123456789ABCDEF";
      tokens.push_back(
          {std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">",
           kByte});
    }
    for (size_t i = random() % 2; i < chars.size(); ++i) {
      tokens.push_back({chars[i]});
    }
    std::map<std::string, uint32_t> ranks;
    for (int i = 0; i < 30; ++i) {
      const std::string text = absl::StrJoin(any(2 + random() % 5), "");
      const auto rank = static_cast<uint32_t>(random() % 20);
      if (!ranks.try_emplace(text, rank).second) continue;
      tokens.push_back({text, TokenType::kNormal, -static_cast<float>(rank)});
    }
    tokens = Vocab(tokens);
    const auto tokenizer = Make(tokens);
    const auto rank_of = [&](const std::string& left,
                             const std::string& right) {
      const auto found = ranks.find(left + right);
      return found == ranks.end() ? kNoRank : found->second;
    };
    for (const size_t n : {size_t{20}, kWindow - 1, kWindow, kWindow + 1,
                           2 * kWindow + random() % kWindow}) {
      const std::vector<std::string> text = any(n);
      std::vector<std::string> expected;
      for (const std::string& part : MergeSlowly(text, rank_of)) {
        if (tokenizer->Find(part)) {
          expected.push_back(part);
          continue;
        }
        for (const char c : part) {
          const auto byte = static_cast<unsigned char>(c);
          expected.push_back(tokens[3 + byte].text);
        }
      }
      std::vector<std::string> found;
      const std::string whole = absl::StrJoin(text, "");
      for (const int32_t id :
           Encode(*tokenizer, absl::StrReplaceAll(whole, {{kMark, " "}}))) {
        found.push_back(tokens[static_cast<size_t>(id)].text);
      }
      ASSERT_EQ(found, expected) << whole;
    }
  }
}

TEST(SpmTokenizerTest, SpacesBecomeMarksAndMergesMayCrossThem) {
  const auto tokenizer = Make(Vocab({{"a"},
                                     {kMark},
                                     {kMark + kMark, TokenType::kNormal, -1},
                                     {kMark + "a", TokenType::kNormal, -2},
                                     {"a" + kMark, TokenType::kNormal, -3}}));
  EXPECT_THAT(Encode(*tokenizer, "a  a"), ElementsAre(3, 5, 3));
  EXPECT_THAT(Encode(*tokenizer, "a a"), ElementsAre(3, 6));
  EXPECT_THAT(Encode(*tokenizer, "a "), ElementsAre(7));
}

TEST(SpmTokenizerTest, CharactersOutsideTheVocabularyBecomeBytes) {
  const auto tokenizer =
      Make(Vocab({{"<0xC3>", kByte}, {"<0xA9>", kByte}, {"\xA8"}, {"a"}}));
  EXPECT_THAT(Encode(*tokenizer, "a\xC3\xA9"), ElementsAre(6, 3, 4));
  EXPECT_THAT(Encode(*tokenizer, "\xC3\xA8"), ElementsAre(3, 5));
  // Neither a byte token nor a one-byte token: the unknown token.
  EXPECT_THAT(Encode(*tokenizer, "z"), ElementsAre(0));
}

TEST(SpmTokenizerTest, MergingNeverMakesAControlToken) {
  const auto tokenizer =
      Make(Vocab({{"<"}, {"e"}, {"os>"}, {"o"}, {"s"}, {">"}, {"os"}, {"<e"}}));
  const std::vector<int32_t> ids = Encode(*tokenizer, "<eos>");
  EXPECT_THAT(ids, ::testing::Not(::testing::Contains(2)));
  EXPECT_EQ(tokenizer->Decode(ids, RenderSpecial::kNo), "<eos>");
  EXPECT_THAT(EncodeWith(ParseSpecial::kYes, *tokenizer, "<eos>"),
              ElementsAre(2));
}

TEST(SpmTokenizerTest, AnUnknownTokenOfControlTypeIsNoFallback) {
  const auto tokenizer = Make({{"<unk>", TokenType::kControl},
                               {"<bos>", TokenType::kControl},
                               {"<eos>", TokenType::kControl},
                               {"a"}});
  EXPECT_THAT(Encode(*tokenizer, "zaz"), ElementsAre(3));
}

TEST(SpmTokenizerTest, BosComesFirstOnlyWhereAsked) {
  const auto tokenizer = Make(Vocab({{"a"}}));
  EXPECT_THAT(EncodeWith(ParseSpecial::kYes, *tokenizer, "a"), ElementsAre(3));
  const auto ids = tokenizer->EncodeWithBos("<bos>a", ParseSpecial::kYes);
  ASSERT_TRUE(ids.ok());
  EXPECT_THAT(*ids, ElementsAre(1, 1, 3));
}

TEST(SpmTokenizerTest, TheSpacePrefixIsAddedAndTakenAway) {
  const auto tokenizer = MakeWith(/*add_space_prefix=*/true,
                                  Vocab({{"a"}, {kMark}, {kMark + "a"}}));
  EXPECT_THAT(Encode(*tokenizer, "a"), ElementsAre(5));
  EXPECT_THAT(EncodeWith(ParseSpecial::kYes, *tokenizer, "a<eos>a"),
              ElementsAre(5, 2, 5));
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{5, 5}, RenderSpecial::kNo),
            "a a");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{1, 5}, RenderSpecial::kNo),
            "a");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{1, 5}, RenderSpecial::kYes),
            "<bos>a");
}

TEST(SpmTokenizerTest, EachPassOverATextAsksWhetherToGoOn) {
  // Special tokens, spaces, where parts begin, and merging.
  constexpr size_t kPasses = 4;
  constexpr size_t kTimes = 8;
  const auto tokenizer = Make(Vocab({{"a"}, {"aa"}}));
  size_t n_asked = 0;
  const auto count = [&] {
    ++n_asked;
    return absl::OkStatus();
  };
  const std::string text(kTimes * StopCounter::kUnits, 'a');
  ASSERT_TRUE(tokenizer->Encode(text, ParseSpecial::kNo, count).ok());
  EXPECT_GE(n_asked, kPasses * kTimes - kPasses);
}

TEST(SpmTokenizerTest, DecodingStopsWhenItIsTold) {
  const auto tokenizer = Make(Vocab({{"a"}}));
  const std::vector<int32_t> ids(4 * StopCounter::kUnits, 3);
  int n_asked = 0;
  const auto stop = [&]() -> absl::Status {
    if (++n_asked < 2) return absl::OkStatus();
    return absl::CancelledError("enough");
  };
  EXPECT_EQ(tokenizer->Decode(ids, RenderSpecial::kNo, stop).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(n_asked, 2);
  const auto whole = tokenizer->Decode(ids, RenderSpecial::kNo, NeverStop);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(*whole, tokenizer->Decode(ids, RenderSpecial::kNo));
}

TEST(SpmTokenizerTest, EveryTypeOfTokenHasItsBytes) {
  const auto tokenizer = Make(Vocab({{"<0x0a>", kByte},
                                     {kMark, TokenType::kUserDefined},
                                     {"x" + kMark},
                                     {"gone", TokenType::kUnused}}));
  const auto bytes = [&](int32_t id, bool render_special) {
    std::string out;
    tokenizer->AppendBytes(id, RenderSpecialIf(render_special), out);
    return out;
  };
  EXPECT_EQ(bytes(3, false), "\n");
  EXPECT_EQ(bytes(4, false), kMark);
  EXPECT_EQ(bytes(5, false), "x ");
  EXPECT_EQ(bytes(6, true), "");
  EXPECT_EQ(bytes(0, false), "");
  EXPECT_EQ(bytes(1, false), "");
  EXPECT_EQ(bytes(1, true), "<bos>");
  for (const int32_t id : {-1, 7, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(bytes(id, true), "");
  }
}

TEST(SpmTokenizerTest, DecodeReplacesWhatIsNotText) {
  const auto tokenizer = Make(Vocab({{"<0xE2>", kByte}, {"a"}}));
  EXPECT_EQ(
      tokenizer->Decode(std::vector<int32_t>{3, 4, 3}, RenderSpecial::kNo),
      "\xEF\xBF\xBD"
      "a\xEF\xBF\xBD");
}

TEST(SpmTokenizerTest, TextLengthHasALimit) {
  const auto tokenizer = Make(Vocab({{"\n", TokenType::kUserDefined}}));
  const auto limit = static_cast<size_t>(Tokenizer::kMaxTextBytes);
  const auto at =
      tokenizer->Encode(std::string(limit, '\n'), ParseSpecial::kNo);
  ASSERT_TRUE(at.ok()) << at.status();
  EXPECT_EQ(at->size(), limit);
  EXPECT_EQ(tokenizer->Encode(std::string(limit + 1, '\n'), ParseSpecial::kNo)
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SpmTokenizerTest, SmallTablesStayWithinThePlan) {
  const auto tokenizer = Make(Vocab({{"a"}}));
  planner::VocabShape shape;
  shape.model = "llama";
  shape.n_tokens = 4;
  shape.token_bytes = 16;
  EXPECT_LE(tokenizer->MemoryBytes(), planner::VocabBytes(shape));
}

TEST(LoadTokenizerTest, UnknownModelsAreRefusedByName) {
  for (const auto& [model, kind] : {std::pair{"bert", "WordPiece"},
                                    {"t5", "unigram"},
                                    {"rwkv", "trie"},
                                    {"no_vocab", "llama (SentencePiece"}}) {
    GgufFixture fixture;
    const absl::Status status = AddVocab(fixture, Vocab({}))
                                    .String("tokenizer.ggml.model", model)
                                    .Load()
                                    .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(status.message()), HasSubstr(model));
    EXPECT_THAT(std::string(status.message()), HasSubstr(kind));
  }
  EXPECT_EQ(GgufFixture().Load().status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace plimsoll::worker
