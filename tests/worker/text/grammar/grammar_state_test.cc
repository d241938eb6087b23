#include "worker/text/grammar/grammar_state.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/worker/text/grammar/grammar_match.h"
#include "worker/text/grammar/gbnf.h"

namespace plimsoll::worker {
namespace {

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
  EXPECT_FALSE(state.Advance("("));
  EXPECT_TRUE(state.Advance("x"));
  EXPECT_TRUE(state.Advance(std::string(GrammarState::kMaxDepth, ')')));
  EXPECT_TRUE(state.Accepts(state.current()));
}

// Says what may follow at random, `n` bytes long, until the text is complete
// where it can be soon.
std::string SayAndEnd(GrammarState& state, int n, std::mt19937& random) {
  const auto may_follow = [&] {
    std::string bytes;
    for (int b = 0; b < 256; ++b) {
      if (state.MayFollow(state.current(), static_cast<uint8_t>(b))) {
        bytes += static_cast<char>(b);
      }
    }
    return bytes;
  };
  std::string said;
  while (!state.Accepts(state.current()) || std::ssize(said) < n) {
    state.BeginStep();
    std::string bytes = may_follow();
    if (bytes.empty()) break;
    const char byte = bytes[random() % bytes.size()];
    EXPECT_TRUE(state.Advance({&byte, 1})) << said;
    said += byte;
    if (std::ssize(said) > 20 * n) break;
  }
  return said;
}

// Twice as many stacks after every byte: 2,048 places after 11 of them.
constexpr const char* kDoubling =
    "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"x\"";

TEST(GrammarStateTest, UpToSoManyReadingsAllAreKept) {
  // Three instructions of each way to get here, so 2^9 ways are the last.
  for (int n = 0; n < 12; ++n) {
    GrammarState state(Compile(kDoubling));
    ASSERT_TRUE(state.Advance(std::string(static_cast<size_t>(n), 'a')));
    const bool is_thinned = 3 << n > int{GrammarState::kMaxReadings};
    EXPECT_EQ(state.was_thinned(), is_thinned) << n;
  }
}

TEST(GrammarStateTest, BeyondThatWhatFollowsStaysInTheLanguage) {
  GrammarState state(Compile(kDoubling));
  for (int i = 0; i < 40; ++i) {
    state.BeginStep();
    ASSERT_TRUE(state.Advance("a"));
  }
  EXPECT_TRUE(state.was_thinned());
  ASSERT_TRUE(state.Advance("x"));
  // Every ending is one of 2^40; some are left, and they are as long.
  for (int i = 0; i < 40; ++i) {
    state.BeginStep();
    ASSERT_FALSE(state.Accepts(state.current()));
    const char byte = state.MayFollow(state.current(), 'b') ? 'b' : 'c';
    ASSERT_TRUE(state.Advance({&byte, 1}));
  }
  EXPECT_TRUE(state.Accepts(state.current()));
  EXPECT_FALSE(state.Advance("b"));
}

TEST(GrammarStateTest, WhichReadingsAreLeftOutDependsOnTheTextOnly) {
  const auto grammar = Compile(kDoubling);
  GrammarState one(grammar);
  GrammarState other(grammar);
  std::mt19937 random(11);
  std::string text(20, 'a');
  ASSERT_TRUE(one.Advance(text));
  text += SayAndEnd(one, 60, random);
  ASSERT_TRUE(one.was_thinned());
  for (const char byte : text) {
    // Frames get other numbers, and what is known is forgotten elsewhere.
    for (const uint8_t first : grammar->class_bytes) {
      for (const uint8_t second : grammar->class_bytes) {
        other.Next(other.Next(other.current(), second), first);
      }
    }
    ASSERT_TRUE(other.Advance({&byte, 1})) << text;
    other.BeginStep();
  }
  EXPECT_TRUE(other.Accepts(other.current()));
}

TEST(GrammarStateTest, AStepsWorkHasALimit) {
  GrammarState state(Compile(kDoubling));
  ASSERT_TRUE(state.Advance(std::string(40, 'a')));
  state.BeginStep();
  int n_computed = 0;
  GrammarState::State at = state.current();
  while (!state.is_exhausted()) {
    const GrammarState::State after = state.Next(at, 'a');
    ASSERT_NE(after, GrammarState::kDead);
    ASSERT_LT(++n_computed, 100);
    if (!state.is_exhausted()) at = after;
  }
  EXPECT_GT(n_computed, 1);
  // What is known still is, what may follow is told, and what is said is taken.
  EXPECT_NE(state.Next(at, 'a'), GrammarState::kDead);
  EXPECT_TRUE(state.MayFollow(at, 'x'));
  EXPECT_EQ(state.Next(at, 'x'), GrammarState::kDead);
  EXPECT_TRUE(state.Advance("x"));
}

// Each of so many empty ways is followed before the only byte.
TEST(GrammarStateTest, WhatIsFollowedHasALimitAndLeadsOnNevertheless) {
  const auto with = [](int n) {
    std::string text = "root ::= \"y\"";
    for (int i = 0; i < n; ++i) text += " (\"a\" | \"b\" | e)";
    return Compile(text + " \"x\"\ne ::= \"\" | \"c\" e \"d\"");
  };
  GrammarState few(with(600));
  ASSERT_TRUE(few.Advance("y"));
  EXPECT_FALSE(few.was_thinned());
  GrammarState many(with(3'500));
  ASSERT_TRUE(many.Advance("y"));
  EXPECT_TRUE(many.was_thinned());
  std::mt19937 random(2);
  SayAndEnd(many, 50, random);
  EXPECT_FALSE(many.Accepts(many.current()) &&
               many.MayFollow(many.current(), 'x'));
}

TEST(GrammarStateTest, WhereNothingShorterIsLeftTheDepthIsKept) {
  // What is opened at the limit can be closed within it.
  GrammarState state(
      Compile("root ::= \"(\" mid \")\" | \"x\"\nmid ::= \"[\" root \"]\""));
  uint32_t n = 0;
  std::string open;
  while (true) {
    state.BeginStep();
    const char next = n % 2 == 0 ? '(' : '[';
    if (!state.Advance({&next, 1})) break;
    open += next;
    ++n;
  }
  EXPECT_EQ(n, GrammarState::kMaxDepth);
  ASSERT_TRUE(state.Advance("x"));
  for (; n > 0; --n) {
    state.BeginStep();
    ASSERT_TRUE(state.Advance(n % 2 == 0 ? "]" : ")")) << n;
  }
  EXPECT_TRUE(state.Accepts(state.current()));
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
