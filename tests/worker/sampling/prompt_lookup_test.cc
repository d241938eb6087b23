// Guesses: what followed the longest, and then the newest, earlier place.
#include "worker/sampling/prompt_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace plimsoll::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Ids = std::vector<int32_t>;

Ids Draft(const Ids& tokens, int64_t n) {
  const auto draft = LookUpDraft(tokens, n);
  return {draft.begin(), draft.end()};
}

TEST(PromptLookupTest, WhatFollowedTheSameTokensIsGuessed) {
  EXPECT_THAT(Draft({1, 2, 3, 4, 5, 1, 2}, 2), ElementsAre(3, 4));
  EXPECT_THAT(Draft({1, 2, 3, 4, 5, 1, 2}, 9), ElementsAre(3, 4, 5, 1, 2));
  EXPECT_THAT(Draft({7, 7, 7}, 3), ElementsAre(7)) << "up to the end";
}

TEST(PromptLookupTest, WithoutAPlaceThereIsNoGuess) {
  EXPECT_THAT(Draft({}, 3), IsEmpty());
  EXPECT_THAT(Draft({1}, 3), IsEmpty());
  EXPECT_THAT(Draft({1, 2, 3, 4}, 3), IsEmpty());
  EXPECT_THAT(Draft({1, 2, 3, 2}, 3), IsEmpty()) << "one token is not enough";
  EXPECT_THAT(Draft({1, 2, 3, 1, 2}, 0), IsEmpty());
}

TEST(PromptLookupTest, TheLongestPlaceThenTheNewest) {
  EXPECT_THAT(Draft({9, 1, 2, 5, 1, 2, 6, 9, 1, 2}, 1), ElementsAre(5));
  EXPECT_THAT(Draft({1, 2, 5, 1, 2, 6, 1, 2}, 1), ElementsAre(6));
  // Beyond kMaxLookupMatch tokens places count the same.
  Ids tokens = {0, 1, 2, 3, 4, 5, 6, 7, 8, 50};
  for (const int32_t id :
       {1, 2, 3, 4, 5, 6, 7, 8, 60, 0, 1, 2, 3, 4, 5, 6, 7}) {
    tokens.push_back(id);
  }
  EXPECT_THAT(Draft(tokens, 1), ElementsAre(8));
  tokens.push_back(8);
  EXPECT_THAT(Draft(tokens, 1), ElementsAre(60));
}

TEST(PromptLookupTest, OnlyTheNewestTokensAreLookedThrough) {
  for (const int64_t size : {kLookupTokens, kLookupTokens + 1}) {
    Ids tokens(static_cast<size_t>(size));
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<int32_t>(10 + i);
    }
    tokens.end()[-2] = tokens[0];
    tokens.end()[-1] = tokens[1];
    EXPECT_EQ(Draft(tokens, 1).size(), size == kLookupTokens ? 1u : 0u);
  }
}

TEST(PromptLookupTest, RandomTextsAgreeWithEveryPlaceTried) {
  std::mt19937 random(3);
  for (int round = 0; round < 2'000; ++round) {
    Ids tokens;
    for (auto n = random() % 40; n > 0; --n) {
      tokens.push_back(static_cast<int32_t>(random() % 3));
    }
    const auto size = static_cast<int64_t>(tokens.size());
    int64_t longest = kMinLookupMatch - 1;
    int64_t place = size;
    for (int64_t end = 1; end < size; ++end) {
      int64_t n = 0;
      while (n < std::min(end, kMaxLookupMatch) &&
             tokens[static_cast<size_t>(end - 1 - n)] ==
                 tokens[static_cast<size_t>(size - 1 - n)]) {
        ++n;
      }
      if (n < kMinLookupMatch || n < longest) continue;
      longest = n;
      place = end;
    }
    const Ids expected(tokens.begin() + place,
                       tokens.begin() + std::min<int64_t>(size, place + 4));
    EXPECT_EQ(Draft(tokens, 4), expected) << round;
  }
}

}  // namespace
}  // namespace plimsoll::worker
