// Scores from ranked merges, and merges that have none.
#include "services/convert/merge_scores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::vector<float>> Scores(
    const std::vector<std::string>& tokens, const std::vector<Merge>& merges) {
  return ScoresOfMerges(tokens, std::vector<bool>(tokens.size()), merges);
}

void ExpectRefused(const std::vector<std::string>& tokens,
                   const std::vector<Merge>& merges, const std::string& words) {
  const auto scores = Scores(tokens, merges);
  EXPECT_TRUE(absl::IsUnimplemented(scores.status())) << scores.status();
  EXPECT_THAT(std::string(scores.status().message()), HasSubstr(words));
}

TEST(MergeScoresTest, EarlierMergesScoreHigher) {
  const auto scores =
      Scores({"a", "b", "c", "bc", "ab", "abc"},
             {{"a", "b"}, {"b", "c"}, {"ab", "c"}, {"a", "bc"}});
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_THAT(*scores, ElementsAre(0, 0, 0, -2, -1, -3));
}

TEST(MergeScoresTest, MergesOfATokenMustStandTogether) {
  ExpectRefused({"a", "b", "c", "bc", "ab", "abc", "ca"},
                {{"a", "b"}, {"b", "c"}, {"ab", "c"}, {"c", "a"}, {"a", "bc"}},
                "between them");
}

TEST(MergeScoresTest, EveryPairThatMakesATokenNeedsAMerge) {
  ExpectRefused({"a", "b", "c", "bc", "ab", "abc"},
                {{"a", "b"}, {"b", "c"}, {"ab", "c"}}, "\"a\" and \"bc\"");
  // A character that is no token is merged by SentencePiece, too.
  ExpectRefused({"a",
                 "\xC3\xA9"
                 "a"},
                {}, "no merge joins");
}

TEST(MergeScoresTest, TokensThatAreCutOutNeedNone) {
  const std::vector<std::string> tokens = {"a", "b", "ab", "aa"};
  const std::vector<Merge> merges = {{"a", "a"}};
  EXPECT_THAT(*ScoresOfMerges(tokens, {false, false, true, false}, merges),
              ElementsAre(0, 0, 0, -1));
  // Their merges may stand between others.
  EXPECT_THAT(
      *ScoresOfMerges({"a", "b", "ab", "aab"}, {false, false, true, false},
                      {{"a", "ab"}, {"a", "b"}}),
      ElementsAre(0, 0, 0, -1));
}

TEST(MergeScoresTest, AMergeThatMakesNoTokenIsRefused) {
  const auto scores = Scores({"a", "b"}, {{"a", "b"}});
  EXPECT_TRUE(absl::IsInvalidArgument(scores.status())) << scores.status();
}

}  // namespace
}  // namespace plimsoll::services
