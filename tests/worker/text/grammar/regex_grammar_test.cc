#include "worker/text/grammar/regex_grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sanitized.h"
#include "tests/worker/text/grammar/grammar_match.h"

namespace plimsoll::worker {
namespace {

using ::testing::HasSubstr;

struct RegexCase {
  std::string pattern;
  std::vector<std::string> texts;
  std::vector<std::string> others;
};

TEST(RegexGrammarTest, EveryConstructMeansWhatItSays) {
  const std::vector<RegexCase> cases = {
      {"abc", {"abc"}, {"ab", "abcd", "xabc"}},
      {"", {""}, {"a"}},
      {"a|bc|", {"a", "bc", ""}, {"b"}},
      {"^a|b$", {"a", "b"}, {"ab"}},
      {"^(a|b)c$", {"ac", "bc"}, {"a"}},
      {"(?:ab)+c*d?", {"ab", "ababccd"}, {"", "abdd"}},
      {"a{2}b{1,}c{0,2}", {"aab", "aabbbcc"}, {"ab", "aabccc"}},
      {".", {"a", "é", "😀"}, {"\n", "", "\xC3"}},
      {"[a-c\\d_-]", {"b", "7", "_", "-"}, {"d", "ab"}},
      {"[^a\\s]", {"b", "é"}, {"a", " ", "\n"}},
      {"\\d\\D\\w\\W\\s\\S", {"1aa \tx", "0é_é\nx"}, {"aaa \tx"}},
      {"\\x41\\u00e9\\u{1F600}\\t", {"Aé😀\t"}, {"A"}},
      {"\\.\\*\\(\\)\\[\\]\\{\\}\\\\\\^\\$\\/", {".*()[]{}\\^$/"}, {"a"}},
      {"]}", {"]}"}, {"]"}},
      {"[.]", {"."}, {"a"}},
      {"[\\b]", {"\b"}, {"b"}},
  };
  for (const RegexCase& one : cases) {
    SCOPED_TRACE(one.pattern);
    const auto grammar = CompileRegex(one.pattern);
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    for (const std::string& text : one.texts) {
      EXPECT_TRUE(Matches(*grammar, text)) << text;
    }
    for (const std::string& text : one.others) {
      EXPECT_FALSE(Matches(*grammar, text)) << text;
    }
  }
}

TEST(RegexGrammarTest, WhatIsNotSupportedIsRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"a(?=b)", "at byte 3: look-ahead"},
      {"a(?!b)", "look-ahead"},
      {"(?<=a)b", "look-behind"},
      {"(?<!a)b", "look-behind"},
      {"(?>a)", "atomic groups"},
      {"(?<n>a)", "no names"},
      {"(?i)a", "no flags"},
      {"(a)\\1", "back references"},
      {"\\k<n>", "back references"},
      {"a*?", "lazy repetition"},
      {"a{2}?", "lazy repetition"},
      {"a++", "possessive repetition"},
      {"\\bword", "word boundaries"},
      {"\\Aa", "anchors other than"},
      {"a^b", "at the ends of the pattern"},
      {"a$b", "at the ends of the pattern"},
      {"(^a)", "at the ends of the pattern"},
      {"(a$)", "at the ends of the pattern"},
      {"\\p{L}", "Unicode properties"},
      {"[[:alpha:]]", "POSIX classes"},
      {"*a", "nothing comes before '*'"},
      {"a|+", "nothing comes before '+'"},
      {"{2}", "nothing comes before '{'"},
      {"(a", "is not closed"},
      {"a)", "was not opened"},
      {"[a", "is not closed"},
      {"[b-a]", "not in order"},
      {"[a-\\d]", "ends in a class"},
      {"[\\d-z]", "begins with a class"},
      {"a{2,1}", "not in order"},
      {"a{65537}", "a count is more than 65536"},
      {"a{,2}", "a count is expected"},
      {"\\", "after a backslash"},
      {"\\q", "not supported"},
      {"\\xZZ", "2 hex digits"},
      {"\\u{110000}", "no code point"},
      {"[^\\s\\S]", "can never end"},
      {"[]a]", "can never end"},
      {"\xFF", "not UTF-8"},
  };
  for (const auto& [pattern, what] : cases) {
    const auto grammar = CompileRegex(pattern);
    ASSERT_EQ(grammar.status().code(), absl::StatusCode::kInvalidArgument)
        << pattern;
    EXPECT_THAT(std::string(grammar.status().message()), HasSubstr(what))
        << pattern;
  }
}

TEST(RegexGrammarTest, LimitsHold) {
  const auto nested = [](size_t n) {
    return CompileRegex(
        absl::StrCat(std::string(n, '('), "a", std::string(n, ')')));
  };
  EXPECT_TRUE(nested(Grammar::kMaxNesting).ok());
  EXPECT_FALSE(nested(Grammar::kMaxNesting + 1).ok());
  EXPECT_FALSE(nested(30'000).ok());
  // Within the limit of instructions, with kReturn.
  EXPECT_TRUE(
      CompileRegex(std::string(Grammar::kMaxSourceBytes - 1, 'a')).ok());
  EXPECT_THAT(
      std::string(CompileRegex(std::string(Grammar::kMaxSourceBytes + 1, 'a'))
                      .status()
                      .message()),
      HasSubstr("at most 65536 are allowed"));
}

// A random pattern over a, b and c.
std::string RandomPattern(std::mt19937& random, int depth) {
  switch (random() % (depth > 0 ? 9 : 4)) {
    case 0:
      return "a";
    case 1:
      return "b";
    case 2:
      return ".";
    case 3:
      return random() % 2 == 0 ? "[ac]" : "[^b]";
    case 4:
    case 5:
      return RandomPattern(random, depth - 1) +
             RandomPattern(random, depth - 1);
    case 6:
      return absl::StrCat("(", RandomPattern(random, depth - 1), "|",
                          RandomPattern(random, depth - 1), ")");
    case 7:
      return absl::StrCat("(?:", RandomPattern(random, depth - 1), ")",
                          random() % 2 == 0 ? "*" : "?");
    default:
      return absl::StrCat("(", RandomPattern(random, depth - 1), "){",
                          random() % 2, ",", 1 + random() % 3, "}");
  }
}

TEST(RegexGrammarTest, AgreesWithTheStandardLibrary) {
  std::mt19937 random(20'240'607);
  int64_t n_matches = 0;
  for (int i = 0; i < (testing::kIsSanitized ? 80 : 400); ++i) {
    const std::string pattern = RandomPattern(random, 4);
    const auto grammar = CompileRegex(pattern);
    ASSERT_TRUE(grammar.ok()) << pattern << ": " << grammar.status();
    const std::regex oracle(pattern);
    // All texts of up to five of three letters, one after the other.
    for (int number = 0; number < 364; ++number) {
      std::string text;
      for (int left = number; left > 0; left = (left - 1) / 3) {
        text.push_back(static_cast<char>('a' + (left - 1) % 3));
      }
      const bool expected = std::regex_match(text, oracle);
      ASSERT_EQ(Matches(*grammar, text), expected) << pattern << " " << text;
      n_matches += expected ? 1 : 0;
    }
  }
  EXPECT_GT(n_matches, 1'000);
}

TEST(RegexGrammarTest, ASearchMatchesAnywhere) {
  const auto search = [](absl::string_view pattern) {
    GrammarBuilder builder;
    const auto tree = ParseRegex(pattern, RegexSyntax::kPlain);
    EXPECT_TRUE(tree.ok());
    const int32_t root = builder.NewRule("root");
    builder.Define(root,
                   AddRegex(*tree, {.match = RegexMatch::kAnywhere}, builder));
    return *builder.Build(root);
  };
  EXPECT_TRUE(Matches(search("b"), "abc"));
  EXPECT_TRUE(Matches(search("^b"), "b\nc"));
  EXPECT_FALSE(Matches(search("^b"), "abc"));
  EXPECT_TRUE(Matches(search("b$"), "ab"));
  EXPECT_FALSE(Matches(search("b$"), "abc"));
  EXPECT_FALSE(Matches(search("^b$"), "abb"));
  EXPECT_TRUE(Matches(search("^a|b$"), "axx"));
  EXPECT_TRUE(Matches(search("^a|b$"), "xxb"));
  EXPECT_FALSE(Matches(search("^a|b$"), "xax"));
}

}  // namespace
}  // namespace plimsoll::worker
