#include "worker/text/schema/constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/worker/text/grammar/grammar_match.h"

namespace plimsoll::worker {
namespace {

using ::testing::HasSubstr;
using Form = ConstraintSource::Form;

TEST(ConstraintTest, BeginsAfterItsTrigger) {
  const ConstraintSource sources[] = {
      {.form = Form::kRegex, .text = "[0-9]+", .frame = {.trigger = "abab"}},
      {.form = Form::kGbnf,
       .text = "root ::= [0-9]+",
       .frame = {.trigger = "abab"}},
      {.form = Form::kJsonSchema,
       .text = R"({"type":"integer"})",
       .frame = {.trigger = "abab"}},
  };
  for (const ConstraintSource& source : sources) {
    const auto made = CompileConstraint(source);
    ASSERT_TRUE(made.ok()) << made.status();
    for (const char* text :
         {"", "free é\xFF", "aba", "abab12", "xaababab7", "abaabab5"}) {
      EXPECT_EQ(Matches(made->grammar, text), std::string(text) != "xaababab7")
          << text;
    }
    EXPECT_FALSE(Matches(made->grammar, "abab"));
    EXPECT_FALSE(MayBegin(made->grammar, "ababx"));
  }
}

TEST(ConstraintTest, ATriggerHasALimit) {
  ConstraintSource source = {.form = Form::kRegex, .text = "a"};
  source.frame.trigger = std::string(ConstraintSource::kMaxTriggerBytes, 'x');
  EXPECT_TRUE(CompileConstraint(source).ok());
  source.frame.trigger += 'x';
  EXPECT_THAT(std::string(CompileConstraint(source).status().message()),
              HasSubstr("at most 256 are allowed"));
}

TEST(ConstraintTest, TheCacheKeepsTheLatestUsed) {
  const auto source = [](const std::string& text) {
    return ConstraintSource{.form = Form::kRegex, .text = text};
  };
  const int64_t one =
      GrammarBytes(*CompileConstraint(source("aaaa"))->grammar) + 1'000;
  ConstraintCache cache(2 * one);
  const auto first = cache.Get(source("aaaa"));
  EXPECT_EQ(cache.Get(source("aaaa"))->grammar, first->grammar);
  EXPECT_EQ(cache.n_hits(), 1);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(cache.Get(source("bbb" + std::to_string(i))).ok());
    ASSERT_TRUE(cache.Get(source("aaaa")).ok());
    EXPECT_LE(cache.n_bytes(), 2 * one);
  }
  EXPECT_EQ(cache.n_hits(), 51);
}

TEST(ConstraintTest, TheCacheTellsOptionsApart) {
  ConstraintCache cache;
  ConstraintSource source = {.text = R"({"type":"object"})"};
  EXPECT_TRUE(Matches(cache.Get(source)->grammar, R"({"a":1})"));
  source.options.closed_objects = true;
  EXPECT_FALSE(Matches(cache.Get(source)->grammar, R"({"a":1})"));
  EXPECT_EQ(cache.n_hits(), 0);
}

TEST(ConstraintTest, TheCacheKeepsNothingLargerThanItself) {
  ConstraintCache cache(100);
  EXPECT_TRUE(cache.Get({.form = Form::kRegex, .text = "a"}).ok());
  EXPECT_EQ(cache.n_bytes(), 0);
  EXPECT_FALSE(cache.Get({.form = Form::kRegex, .text = "("}).ok());
}

}  // namespace
}  // namespace plimsoll::worker
