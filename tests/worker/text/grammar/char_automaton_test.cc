#include "worker/text/grammar/char_automaton.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "base/stop_check.h"
#include "worker/text/grammar/regex_automaton.h"

namespace plimsoll::worker {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> AllTexts(size_t longest) {
  std::vector<std::string> texts = {""};
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == longest) break;
    for (const char c : {'a', 'b', 'c'}) texts.push_back(texts[i] + c);
  }
  return texts;
}

// A search, with anchors anywhere, is what ECMA-262 says it is.
TEST(CharAutomatonTest, SearchesAreThoseOfTheStandardLibrary) {
  for (const char* pattern :
       {"a", "^a", "a$", "^a|b$", "(^a|b)c", "a(b|c$)", "^(a|b)*c{2,3}$", "",
        "^$", "a*", "[^a]b?", "(ab)+$", "a{2}", "^(?:(^a)|c)b", "b$|^c"}) {
    const std::regex oracle(pattern, std::regex::ECMAScript);
    const auto tree = ParseRegex(pattern, RegexSyntax::kEcma);
    ASSERT_TRUE(tree.ok()) << tree.status();
    std::vector<CodePoints> sets;
    AppendSets(*tree, sets);
    const CharKinds classes(sets);
    const auto automaton =
        RegexAutomaton(*tree, RegexMatch::kAnywhere, classes, NeverStop);
    ASSERT_TRUE(automaton.ok()) << automaton.status();
    for (const std::string& text : AllTexts(5)) {
      EXPECT_EQ(IsIn(text, *automaton, classes),
                std::regex_search(text, oracle))
          << pattern << " in " << text;
    }
  }
}

TEST(CharAutomatonTest, SetsAreIntersectedAndTakenAway) {
  const CharKinds classes({{{'a', 'a'}}, {{'b', 'b'}}});
  const auto length = LengthAutomaton(1, 2, classes);
  const CharAutomaton words = WordsAutomaton({"a", "bb", "aba"}, classes);
  const auto rest =
      Intersect({{*length, false}, {words, true}}, classes.size(), NeverStop);
  EXPECT_TRUE(IsIn("b", *rest, classes));
  EXPECT_TRUE(IsIn("xé", *rest, classes));
  for (const char* text : {"", "a", "bb", "aba", "bba"}) {
    EXPECT_FALSE(IsIn(text, *rest, classes)) << text;
  }
  const auto none =
      Intersect({{*length, false}, {*length, true}}, classes.size(), NeverStop);
  EXPECT_TRUE(none->is_empty());
}

TEST(CharAutomatonTest, StatesHaveALimit) {
  const CharKinds classes({});
  const int64_t most = int64_t{CharAutomaton::kMaxStates} - 1;
  EXPECT_TRUE(LengthAutomaton(0, most, classes).ok());
  EXPECT_THAT(
      std::string(LengthAutomaton(0, most + 1, classes).status().message()),
      HasSubstr("more than 8192 states"));
  const auto tree = ParseRegex("(a|b)*a(a|b){20}", RegexSyntax::kEcma);
  std::vector<CodePoints> sets;
  AppendSets(*tree, sets);
  EXPECT_THAT(std::string(RegexAutomaton(*tree, RegexMatch::kAnywhere,
                                         CharKinds(sets), NeverStop)
                              .status()
                              .message()),
              HasSubstr("too large"));
}

}  // namespace
}  // namespace plimsoll::worker
