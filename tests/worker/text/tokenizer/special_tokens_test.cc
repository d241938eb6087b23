#include "worker/text/tokenizer/special_tokens.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/text/tokenizer/gguf_fixture.h"

namespace plimsoll::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<VocabTable> LoadVocab(const GgufFixture& fixture) {
  const std::vector<std::byte> bytes = fixture.Bytes();
  planner::MemorySource source(bytes);
  auto header = planner::ReadGgufHeader(source);
  if (!header.ok()) return header.status();
  return VocabTable::Load(*header, source, VocabTable::Scores::kNone);
}

VocabTable MakeVocab(const std::vector<FixtureToken>& tokens) {
  GgufFixture fixture;
  auto vocab = LoadVocab(AddVocab(fixture, tokens));
  EXPECT_TRUE(vocab.ok()) << vocab.status();
  return *std::move(vocab);
}

// Ids of special tokens and raw texts, as strings.
std::vector<std::string> Split(const VocabTable& vocab, absl::string_view text,
                               bool parse_special) {
  const auto special = SpecialTokens::Build(vocab);
  EXPECT_TRUE(special.ok()) << special.status();
  std::vector<std::string> parts;
  StopCounter never(NeverStop);
  const auto fragments = special->Split(vocab, text, parse_special, never);
  EXPECT_TRUE(fragments.ok()) << fragments.status();
  for (const TextFragment& part : *fragments) {
    parts.push_back(part.id == TextFragment::kRaw
                        ? std::string(text.substr(part.begin, part.bytes))
                        : absl::StrCat("#", part.id));
  }
  return parts;
}

constexpr TokenType kControl = TokenType::kControl;
constexpr TokenType kUserDefined = TokenType::kUserDefined;

TEST(SpecialTokensTest, ControlTextIsTextUnlessSpecialTextIsParsed) {
  const VocabTable vocab = MakeVocab(
      {{"<s>", kControl}, {"<u>", TokenType::kUnknown}, {"<b>", kUserDefined}});
  EXPECT_THAT(Split(vocab, "a<s><u><b>", false), ElementsAre("a<s><u>", "#2"));
  EXPECT_THAT(Split(vocab, "a<s><u><b>", true),
              ElementsAre("a", "#0", "#1", "#2"));
}

TEST(SpecialTokensTest, NormalByteAndUnusedTokensAreNeverMatched) {
  const VocabTable vocab = MakeVocab(
      {{"ab"}, {"<0x41>", TokenType::kByte}, {"zz", TokenType::kUnused}});
  EXPECT_THAT(Split(vocab, "ab<0x41>zz", true), ElementsAre("ab<0x41>zz"));
}

TEST(SpecialTokensTest, NoTextNoFragments) {
  EXPECT_THAT(Split(MakeVocab({{"<s>", kControl}}), "", true), IsEmpty());
}

TEST(SpecialTokensTest, ASearchThatFindsNothingAsksWhetherToGoOn) {
  const VocabTable vocab = MakeVocab({{"<s>", kControl}});
  const auto special = SpecialTokens::Build(vocab);
  ASSERT_TRUE(special.ok()) << special.status();
  constexpr size_t kTimes = 8;
  const std::string text(kTimes * StopCounter::kUnits + 1, 'a');
  size_t n_asked = 0;
  const auto count = [&] {
    ++n_asked;
    return absl::OkStatus();
  };
  StopCounter stop(count);
  EXPECT_TRUE(special->Split(vocab, text, true, stop).ok());
  EXPECT_EQ(n_asked, kTimes);
}

TEST(SpecialTokensTest, LongestGoesFirstEvenIfAnotherIsFurtherLeft) {
  const VocabTable vocab =
      MakeVocab({{"ab", kUserDefined}, {"bcd", kUserDefined}});
  EXPECT_THAT(Split(vocab, "abcd", false), ElementsAre("a", "#1"));
}

TEST(SpecialTokensTest, AmongEqualLengthsTheLowestIdGoesFirst) {
  const VocabTable vocab =
      MakeVocab({{"bc", kUserDefined}, {"ab", kUserDefined}});
  EXPECT_THAT(Split(vocab, "abc", false), ElementsAre("a", "#0"));
}

TEST(SpecialTokensTest, RunsAreTakenFromTheLeft) {
  const VocabTable vocab =
      MakeVocab({{"\n", kUserDefined}, {"\n\n\n", kUserDefined}});
  EXPECT_THAT(Split(vocab, "\n\n\n\n\nx", false),
              ElementsAre("#1", "#0", "#0", "x"));
}

// The definition: for each candidate, longest first, every occurrence from the
// left in each raw part.
std::vector<std::string> SplitSlowly(const VocabTable& vocab,
                                     const std::string& text,
                                     bool parse_special) {
  std::vector<int32_t> order;
  std::set<std::string> seen;
  for (int32_t id = 0; id < vocab.size(); ++id) {
    const TokenType type = vocab.Type(id);
    if (type != kUserDefined && !(parse_special && vocab.IsControl(id))) {
      continue;
    }
    if (vocab.Find(vocab.Text(id)) == id) order.push_back(id);
  }
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return vocab.Text(a).size() > vocab.Text(b).size();
  });
  std::vector<std::pair<std::string, bool>> parts = {{text, true}};
  for (const int32_t id : order) {
    const std::string token(vocab.Text(id));
    std::vector<std::pair<std::string, bool>> next;
    for (const auto& [part, is_raw] : parts) {
      size_t begin = 0;
      size_t at = 0;
      while (is_raw && (at = part.find(token, begin)) != std::string::npos) {
        next.push_back({part.substr(begin, at - begin), true});
        next.push_back({absl::StrCat("#", id), false});
        begin = at + token.size();
      }
      next.push_back({part.substr(begin), is_raw});
    }
    parts = next;
  }
  std::vector<std::string> out;
  for (const auto& part : parts) {
    if (!part.first.empty()) out.push_back(part.first);
  }
  return out;
}

TEST(SpecialTokensTest, EqualsReplacingOneTokenAfterTheOther) {
  std::mt19937 random(11);
  const auto word = [&](size_t n) {
    std::string text;
    for (; n > 0; --n) text += "ab<"[random() % 3];
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<FixtureToken> tokens;
    for (size_t n = 1 + random() % 8; n > 0; --n) {
      const TokenType types[] = {kControl, kUserDefined, TokenType::kNormal};
      tokens.push_back({word(1 + random() % 4), types[random() % 3]});
    }
    const VocabTable vocab = MakeVocab(tokens);
    const std::string text = word(random() % 20);
    for (const bool parse_special : {false, true}) {
      ASSERT_EQ(Split(vocab, text, parse_special),
                SplitSlowly(vocab, text, parse_special))
          << text;
    }
  }
}

TEST(SpecialTokensTest, LongestSpecialTokenIsTheLimit) {
  const auto build = [](size_t bytes) {
    return SpecialTokens::Build(
        MakeVocab({{std::string(bytes, 'x'), kControl}}));
  };
  const auto limit = static_cast<size_t>(SpecialTokens::kMaxSpecialBytes);
  EXPECT_TRUE(build(limit).ok());
  const absl::Status status = build(limit + 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("tokenizer.ggml.tokens[0]"));
}

absl::StatusOr<TokenRoles> Roles(const std::vector<FixtureToken>& tokens,
                                 GgufFixture keys, TokenRoleDefaults defaults) {
  AddVocab(keys, tokens);
  const std::vector<std::byte> bytes = keys.Bytes();
  planner::MemorySource source(bytes);
  auto header = planner::ReadGgufHeader(source);
  if (!header.ok()) return header.status();
  auto vocab = VocabTable::Load(*header, source, VocabTable::Scores::kNone);
  if (!vocab.ok()) return vocab.status();
  return ReadTokenRoles(*header, *vocab, defaults);
}

constexpr TokenRoleDefaults kSpm = {1, 2, 0, true, false};
constexpr TokenRoleDefaults kBpe = {1, 1, -1, false, true};

TEST(TokenRolesTest, KnownTextsEndGenerationOnlyAsControlTokens) {
  const auto roles = Roles({{"<unk>", TokenType::kUnknown},
                            {"<bos>", kControl},
                            {"<eos>", kControl},
                            {"</s>", kUserDefined},
                            {"<end_of_turn>", kControl},
                            {"<|im_end|>"}},
                           GgufFixture(), kSpm);
  ASSERT_TRUE(roles.ok()) << roles.status();
  EXPECT_THAT(roles->end_tokens, ElementsAre(2, 4));
  EXPECT_TRUE(roles->add_bos);
  EXPECT_EQ(roles->bos, 1);
}

TEST(TokenRolesTest, KeysNameEndTokensWhateverTheirType) {
  GgufFixture keys;
  keys.U32("tokenizer.ggml.eos_token_id", 0)
      .U32("tokenizer.ggml.eot_token_id", 2)
      .U32("tokenizer.ggml.eom_token_id", 3);
  const auto roles = Roles({{"a"}, {"b"}, {"c"}, {"d"}}, keys, kSpm);
  ASSERT_TRUE(roles.ok()) << roles.status();
  EXPECT_THAT(roles->end_tokens, ElementsAre(0, 2, 3));
}

TEST(TokenRolesTest, EndIsASeparatorBesideReturnAndCall) {
  const std::vector<FixtureToken> tokens = {
      {"<|end|>", kControl}, {"<|return|>", kControl}, {"<|call|>", kControl}};
  GgufFixture keys;
  keys.U32("tokenizer.ggml.eos_token_id", 1);
  const auto all = Roles(tokens, keys, kBpe);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(all->end_tokens, ElementsAre(1, 2));
  const auto two = Roles({tokens[0], tokens[1]}, keys, kBpe);
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_THAT(two->end_tokens, ElementsAre(0, 1));
}

TEST(TokenRolesTest, AMissingKeyOfBpeNamesNoOrdinaryToken) {
  const auto roles = Roles({{"a"}, {"b"}}, GgufFixture(), kBpe);
  ASSERT_TRUE(roles.ok()) << roles.status();
  EXPECT_EQ(roles->bos, std::nullopt);
  EXPECT_THAT(roles->end_tokens, IsEmpty());
  const auto control = Roles({{"a"}, {"b", kControl}}, GgufFixture(), kBpe);
  ASSERT_TRUE(control.ok()) << control.status();
  EXPECT_EQ(control->bos, 1);
  EXPECT_FALSE(control->add_bos);
}

TEST(TokenRolesTest, AddBosFollowsItsKey) {
  const std::vector<FixtureToken> tokens = {{"a"}, {"b", kControl}};
  const auto off = Roles(
      tokens, GgufFixture().Bool("tokenizer.ggml.add_bos_token", false), kSpm);
  ASSERT_TRUE(off.ok()) << off.status();
  EXPECT_FALSE(off->add_bos);
  const auto on = Roles(
      tokens, GgufFixture().Bool("tokenizer.ggml.add_bos_token", true), kBpe);
  ASSERT_TRUE(on.ok()) << on.status();
  EXPECT_TRUE(on->add_bos);
}

TEST(TokenRolesTest, IdsOutsideTheVocabularyAreRefusedByKey) {
  for (const absl::string_view key :
       {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id",
        "tokenizer.ggml.unknown_token_id"}) {
    EXPECT_TRUE(Roles({{"a"}, {"b"}}, GgufFixture().U32(key, 1), kSpm).ok());
    const auto roles = Roles({{"a"}, {"b"}}, GgufFixture().U32(key, 2), kSpm);
    EXPECT_EQ(roles.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(roles.status().message()),
                HasSubstr(std::string(key)));
  }
}

}  // namespace
}  // namespace plimsoll::worker
