#include "worker/text/grammar/gbnf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/text/grammar/grammar_match.h"
#include "worker/text/grammar/grammar_builder.h"

namespace plimsoll::worker {
namespace {

using ::testing::HasSubstr;

struct GbnfCase {
  std::string grammar;
  std::vector<std::string> texts;
  std::vector<std::string> others;
};

TEST(GbnfTest, EveryConstructMeansWhatItSays) {
  const std::vector<GbnfCase> cases = {
      {R"(root ::= "abc")", {"abc"}, {"", "ab", "abcd", "Abc"}},
      {R"(root ::= "a" | "bc" |)", {"a", "bc", ""}, {"b", "abc"}},
      {R"(root ::= "x" ("a" | "b" "c") "y")", {"xay", "xbcy"}, {"xacy", "xy"}},
      {R"(root ::= [a-cx] [^a-c])", {"ax", "cz", "xé"}, {"dx", "aa", "a"}},
      {R"(root ::= [-a] [a-] [\]\-\\])", {"-a]", "a--", "--\\"}, {"ba]"}},
      {R"(root ::= "a"* "b"+ "c"?)",
       {"b", "aabbc", "bbbb"},
       {"", "ac", "bcc", "abca"}},
      {R"(root ::= "ab"{2} [0-9]{1,3} "x"{2,})",
       {"abab1xx", "abab123xxxxx"},
       {"ab1xx", "abab1234xx", "ababxx", "abab1x"}},
      {R"(root ::= "a"{0} "b"{0,1})", {"", "b"}, {"a", "bb"}},
      {R"(root ::= .{2})", {"ab", "\n\n", "é😀"}, {"a", "abc", "\xC3"}},
      {"root ::= \"\\n\\t\\\"\\\\\\x41\\u00e9\\U0001F600\"",
       {"\n\t\"\\Aé😀"},
       {"\n\t\"\\Aé"}},
      {"# first\nroot ::= a # of it\n  | b\n\na ::= \"a\"\nb ::= (\n\"b\"\n"
       "\"c\" # inside\n)\n",
       {"a", "bc"},
       {"b"}},
      {"root ::=\n  x-1 x_2\nx-1 ::= \"1\"\r\nx_2 ::= \"2\"", {"12"}, {"1"}},
      {R"x(root ::= "(" root ")" | "")x", {"", "((()))"}, {"(()", ")"}},
      {R"(root ::= ("a"?)* "b")", {"b", "aab"}, {"a"}},
      {R"(root ::= ("a" | "a" "b")* )", {"", "aab", "abab"}, {"b", "abb"}},
  };
  for (const GbnfCase& one : cases) {
    SCOPED_TRACE(one.grammar);
    const auto grammar = CompileGbnf(one.grammar);
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    for (const std::string& text : one.texts) {
      EXPECT_TRUE(Matches(*grammar, text)) << text;
    }
    for (const std::string& text : one.others) {
      EXPECT_FALSE(Matches(*grammar, text)) << text;
    }
  }
}

TEST(GbnfTest, AnErrorNamesItsLineAndWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no rule 'root'"},
      {"a ::= \"b\"", "no rule 'root'"},
      {"root ::= a\na ::= b\n", "line 2: rule 'b' is not defined"},
      {"root ::= \"a\"\nroot ::= \"b\"",
       "line 2: rule 'root' is defined twice"},
      {"root = \"a\"", "line 1: ::= is expected"},
      {"root ::= \"a", "line 1: a literal is not closed"},
      {"root ::= [a", "line 1: a class [...] is not closed"},
      {"root ::= [z-a]", "not in order"},
      {"root ::= (\"a\"\n", "line 2: a parenthesis is not closed"},
      {"root ::= \"a\")", "line 1: ')' is unexpected"},
      {"root ::= *", "'*' is unexpected"},
      {"root ::= \"a\"{3,2}", "not in order"},
      {"root ::= \"a\"{x}", "a count is expected"},
      {"root ::= \"a\"{2", "'}' is expected"},
      {"root ::= \"\\q\"", "an escape that is not known"},
      {"root ::= \"\\x4\"", "needs 2 hex digits"},
      {"root ::= \"\\uD800\"", "no code point"},
      {"root ::= <[5]>", "tokens as parts of a rule"},
      {"root ::= !a", "tokens as parts of a rule"},
      {"root ::= \"\xFF\"", "not UTF-8"},
      {"root ::= root \"a\" | \"a\"", "'root' begins with itself"},
      {"root ::= a\na ::= b? c\nb ::= \"x\"\nc ::= a \"y\" | \"z\"",
       "begins with itself"},
      {"root ::= \"a\" root", "'root' can never end"},
      {"root ::= []", "'root' can never end"},
      {"root ::= a | \"x\"\na ::= \"y\" a", "'a' can never end"},
  };
  for (const auto& [text, what] : cases) {
    const auto grammar = CompileGbnf(text);
    ASSERT_EQ(grammar.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_THAT(std::string(grammar.status().message()), HasSubstr(what));
  }
}

TEST(GbnfTest, TheSourceHasALimit) {
  std::string text = "root ::= \"a\" #";
  text.resize(Grammar::kMaxSourceBytes, 'x');
  EXPECT_TRUE(CompileGbnf(text).ok());
  text.push_back('x');
  EXPECT_THAT(std::string(CompileGbnf(text).status().message()),
              HasSubstr("at most 65536"));
}

TEST(GbnfTest, NestingHasALimit) {
  const auto nested = [](int n) {
    return CompileGbnf(
        absl::StrCat("root ::= ", std::string(static_cast<size_t>(n), '('),
                     "\"a\"", std::string(static_cast<size_t>(n), ')')));
  };
  EXPECT_TRUE(nested(Grammar::kMaxNesting).ok());
  EXPECT_THAT(std::string(nested(Grammar::kMaxNesting + 1).status().message()),
              HasSubstr("nested more than 64"));
  EXPECT_FALSE(nested(30'000).ok());
}

TEST(GbnfTest, RepetitionsOfRepetitionsHaveALimit) {
  const std::string stars(GrammarBuilder::kMaxDepth - 1, '*');
  EXPECT_TRUE(CompileGbnf("root ::= \"a\"" + stars).ok());
  EXPECT_THAT(
      std::string(CompileGbnf("root ::= \"a\"*" + stars).status().message()),
      HasSubstr("nested more than"));
}

TEST(GbnfTest, CountsAndInstructionsHaveLimits) {
  // A set and a split for each, and kReturn.
  EXPECT_TRUE(CompileGbnf("root ::= \"a\"{0,32767}").ok());
  EXPECT_THAT(
      std::string(CompileGbnf("root ::= \"a\"{0,32768}").status().message()),
      HasSubstr("more than 65536 instructions"));
  EXPECT_TRUE(CompileGbnf("root ::= \"a\"{65535}").ok());
  EXPECT_THAT(
      std::string(CompileGbnf("root ::= \"a\"{65536}").status().message()),
      HasSubstr("instructions"));
  EXPECT_THAT(
      std::string(CompileGbnf("root ::= \"a\"{65537}").status().message()),
      HasSubstr("a count is more than 65536"));
}

}  // namespace
}  // namespace plimsoll::worker
