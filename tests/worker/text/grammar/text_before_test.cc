#include "worker/text/grammar/text_before.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/worker/text/grammar/grammar_match.h"

namespace plimsoll::worker {
namespace {

// A text up to `end` and then "1".
std::shared_ptr<const Grammar> Built(const TextEnd& end,
                                     const std::vector<GrammarMark>& marks) {
  GrammarBuilder builder;
  for (const GrammarMark& mark : marks) builder.AddMark(mark);
  const int32_t root = builder.NewRule("root");
  builder.Define(root, TextBefore(end, builder.Literal("1"), builder));
  auto grammar = builder.Build(root);
  EXPECT_TRUE(grammar.ok()) << grammar.status();
  return *std::move(grammar);
}

// What TextBefore promises, said in another way.
bool IsWhole(const std::string& text, const TextEnd& end) {
  const size_t at = text.find(end.trigger);
  const std::string before = text.substr(0, at);
  for (const std::string& word : end.never) {
    // A word may reach into the trigger, but it must not end before that does.
    const size_t n =
        at == std::string::npos ? text.size() : at + end.trigger.size() - 1;
    if (text.substr(0, n).find(word) != std::string::npos) return false;
  }
  if (at == std::string::npos) return !end.is_needed;
  return text.substr(at + end.trigger.size()) == "1";
}

TEST(TextBeforeTest, ItIsWhatASearchFinds) {
  std::mt19937 random(3);
  for (const TextEnd& end : std::vector<TextEnd>{
           {.trigger = "ab"},
           {.trigger = "aab", .is_needed = true},
           {.trigger = "abab", .never = {"bb", "aaa"}, .is_needed = true},
           {.trigger = "ba", .never = {"abb", "bbb", "1"}}}) {
    SCOPED_TRACE(end.trigger);
    const auto grammar = Built(end, {});
    int n_whole = 0;
    for (int i = 0; i < 20'000; ++i) {
      std::string text;
      const size_t n = random() % 9;
      for (size_t j = 0; j < n; ++j) text += "ab1"[random() % 3];
      const bool is_whole = IsWhole(text, end);
      n_whole += is_whole ? 1 : 0;
      ASSERT_EQ(Matches(grammar, text), is_whole) << text;
    }
    EXPECT_GT(n_whole, 10);
  }
}

TEST(TextBeforeTest, OnlyMarksThatAreFreeStandBeforeATrigger) {
  const std::vector<GrammarMark> marks = {
      {.text = "<free>", .id = 1, .is_free = true},
      {.text = "<end>", .id = 2, .is_free = false}};
  const auto grammar = Built({.trigger = "<free>to<end>"}, marks);
  EXPECT_TRUE(Takes(grammar, {'a', -1, 't', -1, 'o'}));
  EXPECT_TRUE(Takes(grammar, {-1, -1, 't', 'o', -2, '1'}));
  EXPECT_FALSE(Takes(grammar, {-1, 't', 'o', -2}));
  EXPECT_FALSE(Takes(grammar, {-1, 't', 'o', -2, '2'}));
  EXPECT_FALSE(Takes(grammar, {'a', -2})) << "a mark that is not free";
  const auto none = Built({.trigger = "<free>", .has_marks = false}, marks);
  EXPECT_TRUE(Takes(none, {'a', -1, '1'})) << "the trigger's own";
  const auto other = Built({.trigger = "x", .has_marks = false}, marks);
  EXPECT_FALSE(Takes(other, {'a', -1, 'x', '1'}));
}

TEST(TextBeforeTest, ATriggerOfMarksIsNotSpelledInBytes) {
  const auto grammar =
      Built({.trigger = "<m>"}, {{.text = "<m>", .id = 1, .is_free = true}});
  EXPECT_TRUE(Takes(grammar, {'<', 'm', -1, '1'}));
  EXPECT_TRUE(Takes(grammar, {'<', 'm'}));
  EXPECT_FALSE(Takes(grammar, {'<', 'm', '>'}));
}

}  // namespace
}  // namespace plimsoll::worker
