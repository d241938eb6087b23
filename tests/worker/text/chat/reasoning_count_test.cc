#include "worker/text/chat/reasoning_count.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "worker/text/chat/reply_format.h"

namespace plimsoll::worker {
namespace {

constexpr char kThinkTemplate[] = R"('<think>' ~ text ~ '</think>\n\n' ~ rest)";

// How many of a reply's tokens are reasoning.
int64_t CountFrom(bool begins_reasoning,
                  const std::vector<std::string>& tokens) {
  const ReplyReading reading = {.format = FindReplyFormat(kThinkTemplate),
                                .begins_reasoning = begins_reasoning};
  ReasoningCount count(reading);
  for (const std::string& token : tokens) count.Push(token);
  return count.n_tokens();
}

int64_t CountOf(const std::vector<std::string>& tokens) {
  return CountFrom(/*begins_reasoning=*/false, tokens);
}

TEST(ReasoningCountTest, CountsWhatStandsBetweenTheMarks) {
  EXPECT_EQ(CountOf({"<think>", "\n", "a", " b", "</think>", "\n\n", "c"}), 3);
  EXPECT_EQ(
      CountFrom(/*begins_reasoning=*/true, {"\n", "a", " b", "</think>", "c"}),
      3);
  EXPECT_EQ(CountOf({"a", "b"}), 0);
  EXPECT_EQ(CountOf({"<think>", "</think>", "c"}), 0);
}

TEST(ReasoningCountTest, TokensThatAreAPartOfAMarkDoNotCount) {
  EXPECT_EQ(CountOf({"<th", "ink", ">", "a", "b", "</", "think", ">", "c"}), 2);
  EXPECT_EQ(CountOf({"<think>", "a", ".</", "think", ">\n", "c"}), 2);
}

TEST(ReasoningCountTest, WhatOnlyLooksLikeAMarkCounts) {
  EXPECT_EQ(CountOf({"<think>", "a", "</", "th", "e", "</think>"}), 4);
  EXPECT_EQ(CountOf({"<think>", "a", "<", "/", "b"}), 4);
}

TEST(ReasoningCountTest, AReplyMayEndInsideOfAMark) {
  EXPECT_EQ(CountOf({"<think>", "a", "</", "thi"}), 3);
}

TEST(ReasoningCountTest, ATokenWithReasoningAndAMarkCountsOnce) {
  EXPECT_EQ(CountOf({"<think>a", "b</think>c", "d"}), 2);
}

TEST(ReasoningCountTest, TokensWithoutBytesCountInsideOnly) {
  EXPECT_EQ(CountOf({"", "<think>", "", "", "a", "</think>", ""}), 3);
}

TEST(ReasoningCountTest, MarksInAnAnswerAreText) {
  EXPECT_EQ(CountOf({"a", "<think>", "b", "</think>"}), 0);
}

}  // namespace
}  // namespace plimsoll::worker
