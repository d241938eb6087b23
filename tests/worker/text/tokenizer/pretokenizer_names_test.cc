// Names of pre-tokenizers by the expressions of a tokenizer.json, and whether
// those expressions cut text as the named rule does.
#include "worker/text/tokenizer/pretokenizer_names.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/text/tokenizer/regex_pretokenizer.h"
#include "worker/text/tokenizer/pretokenizer.h"

namespace plimsoll::worker {
namespace {

using ::testing::HasSubstr;

using Expressions = std::vector<std::string>;

// The expressions as the tokenizer.json of well-known models has them.
constexpr char kLlama3Expression[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen2Expression[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen35Expression[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kPhi4Expression[] =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr char kGpt4oExpression[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kTekkenExpression[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Case {
  Expressions expressions;
  bool whole_pieces_first;
  std::string name;
};

std::vector<Case> Cases() {
  const std::string gpt2(kGpt2Expression);
  const std::string digit(kDigitExpression);
  return {{{gpt2}, false, "gpt-2"},
          {{digit, gpt2}, false, "smollm"},
          {{kLlama3Expression}, true, "llama-bpe"},
          {{kLlama3Expression}, false, "dbrx"},
          {{kPhi4Expression}, true, "llama-bpe"},
          {{kPhi4Expression}, false, "dbrx"},
          {{kQwen2Expression}, false, "qwen2"},
          {{kQwen35Expression}, false, "qwen35"},
          {{kGpt4oExpression}, false, "gpt-4o"},
          {{kGpt4oExpression}, true, "gpt-4o"},
          {{kTekkenExpression}, true, "tekken"}};
}

constexpr absl::string_view kTexts[] = {
    "I'm sure you'll WE'VE it's 'tis, don't!",
    "numbers 1 22 333 4444 -5.6e7 0x89 x12y",
    " s  s   s\taa \n\n b\r\n  c \n d   ",
    "if (x != 0) { return a/b; }\n\t// done /\n/ ...\n\n",
    "été дом 你好 e\xCC\x81\xCC\x81! HTTPServer aB Ab \xD8\xA7\xD8\xA8",
};

TEST(PreTokenizerNamesTest, PublishedExpressionsHaveTheirNames) {
  for (const Case& one : Cases()) {
    const auto name =
        NameOfPreTokenizer(one.expressions, one.whole_pieces_first);
    ASSERT_TRUE(name.ok()) << name.status();
    EXPECT_EQ(*name, one.name);
    EXPECT_TRUE(PreTokenizer::Create(*name).ok());
  }
}

TEST(PreTokenizerNamesTest, TheNamedRuleCutsAsTheExpressionsDo) {
  for (const Case& one : Cases()) {
    const auto rule = PreTokenizer::Create(one.name);
    ASSERT_TRUE(rule.ok());
    for (absl::string_view text : kTexts) {
      const auto expected = SplitByExpressions(one.expressions, text);
      std::vector<std::string> pieces;
      while (!text.empty()) {
        const size_t bytes = rule->FirstPiece(text);
        pieces.emplace_back(text.substr(0, bytes));
        text.remove_prefix(bytes);
      }
      EXPECT_EQ(pieces, expected) << one.name;
    }
  }
}

TEST(PreTokenizerNamesTest, OtherSpellingsAreRefusedWithTheirText) {
  const std::pair<Expressions, bool> unknown[] = {
      {{}, false},
      {{kQwen2Expression}, true},  // no known rule takes whole pieces first
      {{kLlama3Expression, std::string(kGpt2Expression)}, true},
      {{R"(\s+)"}, false},
  };
  for (const auto& [expressions, whole_pieces_first] : unknown) {
    const auto name = NameOfPreTokenizer(expressions, whole_pieces_first);
    EXPECT_TRUE(absl::IsUnimplemented(name.status()));
    if (expressions.empty()) continue;
    EXPECT_THAT(std::string(name.status().message()),
                HasSubstr(expressions.front()));
  }
}

}  // namespace
}  // namespace plimsoll::worker
