#include "worker/grammar_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/worker/text/grammar_match.h"
#include "worker/gbnf.h"

namespace plimsoll::worker {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const Grammar> Compile(absl::string_view text) {
  const auto grammar = CompileGbnf(text);
  EXPECT_TRUE(grammar.ok()) << grammar.status();
  return grammar.value_or(nullptr);
}

TEST(GrammarStateTest, ACodePointMayComeInPieces) {
  GrammarState state(Compile("root ::= [α-ω]{2} [^a] \"é\""));
  for (const char* piece :
       {"\xCE", "\xB1\xCF", "\x89", "\xF0\x9F", "\x98", "\x80\xC3"}) {
    EXPECT_TRUE(state.Advance(piece));
    EXPECT_FALSE(state.Accepts(state.current()));
  }
  EXPECT_TRUE(state.Advance("\xA9"));
  EXPECT_TRUE(state.Accepts(state.current()));
}

TEST(GrammarStateTest, BytesThatNoCodePointContinuesWithAreRefused) {
  const auto grammar = Compile("root ::= .*");
  EXPECT_TRUE(MayBegin(grammar, "\xED\x9F"));
  for (const char* bytes : {"\x80", "\xED\xA0", "\xC3(", "\xF5", "\xE0\x80"}) {
    EXPECT_FALSE(MayBegin(grammar, bytes));
  }
}

TEST(GrammarStateTest, WhatMayNotFollowChangesNothing) {
  GrammarState state(Compile("root ::= \"abc\""));
  EXPECT_TRUE(state.Advance("a"));
  const GrammarState::State before = state.current();
  EXPECT_FALSE(state.Advance("bx"));
  EXPECT_EQ(state.current(), before);
  EXPECT_TRUE(state.Advance("bc"));
  EXPECT_TRUE(state.Accepts(state.current()));
  EXPECT_FALSE(state.Advance("c"));
}

TEST(GrammarStateTest, ARepetitionDoesNotNest) {
  GrammarState state(
      Compile("root ::= list\nlist ::= item list | \"\"\nitem ::= [a-z]"));
  ASSERT_TRUE(state.Advance("ab"));
  const GrammarState::State here = state.current();
  for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(state.Advance("x"));
  EXPECT_EQ(state.current(), here);
}

TEST(GrammarStateTest, NestingHasALimit) {
  GrammarState state(Compile("root ::= \"(\" root \")\" | \"x\""));
  for (uint32_t i = 0; i < GrammarState::kMaxDepth; ++i) {
    state.BeginStep();
    ASSERT_TRUE(state.Advance("(")) << i;
  }
  EXPECT_FALSE(state.was_cut());
  EXPECT_FALSE(state.Advance("("));
  EXPECT_TRUE(state.was_cut());
  EXPECT_TRUE(state.status().ok());
  EXPECT_TRUE(state.Advance("x"));
  EXPECT_TRUE(state.Advance(std::string(GrammarState::kMaxDepth, ')')));
  EXPECT_TRUE(state.Accepts(state.current()));
}

// Twice as many stacks after every byte.
TEST(GrammarStateTest, AStepHasALimit) {
  GrammarState state(
      Compile("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"x\""));
  int n = 0;
  while (state.Advance("a")) {
    state.BeginStep();
    ASSERT_LT(++n, 30);
  }
  EXPECT_GT(n, 8);
  EXPECT_EQ(state.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(state.status().message()), HasSubstr("ambiguous"));
}

TEST(GrammarStateTest, MemoryHasALimitAndForgettingChangesNothing) {
  // Every count is a state of its own.
  const auto grammar = Compile("root ::= [a-z]{0,20000} \".\"");
  GrammarState state(grammar);
  int n_forgotten = 0;
  for (int i = 0; i < 20'000; ++i) {
    n_forgotten += state.BeginStep() ? 1 : 0;
    ASSERT_LE(state.MemoryBytes(),
              static_cast<int64_t>(GrammarState::kMemoBytes));
    ASSERT_TRUE(state.Advance("k"));
  }
  EXPECT_GT(n_forgotten, 2);
  EXPECT_FALSE(state.Advance("k"));
  EXPECT_TRUE(state.Advance("."));
  EXPECT_TRUE(state.Accepts(state.current()));
}

TEST(GrammarStateTest, WhatIsOpenIsNeverForgotten) {
  const auto grammar =
      Compile("root ::= \"[\" (root (\",\" root)*)? \"]\" | [a-z]{1,9}");
  std::mt19937 random(7);
  GrammarState state(grammar);
  std::string open;
  int n_forgotten = 0;
  for (int i = 0; i < 3'000; ++i) {
    ASSERT_TRUE(state.Advance("["));
    if (random() % 2 == 0) {
      ASSERT_TRUE(state.Advance("abc,"));
    }
    n_forgotten += state.BeginStep() ? 1 : 0;
  }
  EXPECT_GT(n_forgotten, 0);
  ASSERT_TRUE(state.Advance("z"));
  for (int i = 0; i < 2'999; ++i) {
    ASSERT_TRUE(state.Advance("]"));
    ASSERT_FALSE(state.Accepts(state.current()));
    state.BeginStep();
  }
  ASSERT_TRUE(state.Advance("]"));
  EXPECT_TRUE(state.Accepts(state.current()));
}

}  // namespace
}  // namespace plimsoll::worker
