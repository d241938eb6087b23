#include "worker/text/mark_end.h"

#include "gtest/gtest.h"

namespace plimsoll::worker {
namespace {

TEST(MarkEndTest, TheLongestBeginningOfTheMarkAtTheEndCounts) {
  EXPECT_EQ(EndThatBegins("</think>", "so </thi"), 5u);
  EXPECT_EQ(EndThatBegins("</think>", "so <"), 1u);
  EXPECT_EQ(EndThatBegins("aab", "xaa"), 2u);
  EXPECT_EQ(EndThatBegins("aba", "xab"), 2u);
  EXPECT_EQ(EndThatBegins("abab", "aba"), 3u);
}

TEST(MarkEndTest, AWholeMarkIsNoBeginning) {
  EXPECT_EQ(EndThatBegins("<x>", "<x>"), 0u);
  EXPECT_EQ(EndThatBegins("aa", "aa"), 1u) << "what may follow is a mark again";
  EXPECT_EQ(EndThatBegins("x", "x"), 0u);
}

TEST(MarkEndTest, NothingIsFoundWhereNothingBegins) {
  EXPECT_EQ(EndThatBegins("<x>", ""), 0u);
  EXPECT_EQ(EndThatBegins("<x>", "<x >"), 0u);
  EXPECT_EQ(EndThatBegins("<x>", "<y"), 0u);
}

}  // namespace
}  // namespace plimsoll::worker
