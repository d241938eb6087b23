// What a planner that starts may believe.
#include "planner/lease/lease_start.h"

#include <gtest/gtest.h>

namespace plimsoll::planner {
namespace {

constexpr int64_t kWall = 1'800'000'000'000;
constexpr LeaseTimes kTimes = {.recovery = absl::Seconds(20)};

PlannerStart Start(StartEvidence evidence) {
  evidence.wall_millis = kWall;
  return StartOf(evidence, kTimes);
}

bool GrantsAtOnce(const StartEvidence& evidence) {
  const PlannerStart start = Start(evidence);
  EXPECT_FALSE(start.reason.empty());
  if (start.recovery == absl::ZeroDuration()) return true;
  EXPECT_EQ(start.recovery, kTimes.recovery);
  return false;
}

TEST(LeaseStartTest, AWholeJournalKnowsEverything) {
  const PlannerStart start = Start({.journal = JournalFound::kWhole});
  EXPECT_EQ(start.recovery, absl::ZeroDuration());
  EXPECT_EQ(start.first_epoch, 1);
  EXPECT_TRUE(GrantsAtOnce({.journal = JournalFound::kWhole,
                            .is_said_first = true,
                            .has_mark = true}));
}

TEST(LeaseStartTest, WithLessThanAWholeJournalNothingIsGrantedAtFirst) {
  for (const JournalFound journal :
       {JournalFound::kNone, JournalFound::kNew, JournalFound::kPartial,
        JournalFound::kBad, JournalFound::kUnusable}) {
    EXPECT_FALSE(GrantsAtOnce({.journal = journal}));
    EXPECT_EQ(Start({.journal = journal}).first_epoch, kWall);
  }
}

TEST(LeaseStartTest, TheFirstPlannerIsBelievedIfNothingSaysOtherwise) {
  EXPECT_TRUE(
      GrantsAtOnce({.journal = JournalFound::kNone, .is_said_first = true}));
  EXPECT_TRUE(
      GrantsAtOnce({.journal = JournalFound::kNew, .is_said_first = true}));
  // It may be wrong all the same: epochs do not begin at 1.
  EXPECT_EQ(
      Start({.journal = JournalFound::kNew, .is_said_first = true}).first_epoch,
      kWall);
}

TEST(LeaseStartTest, ASignOfAnEarlierPlannerOverrulesFirst) {
  for (const JournalFound journal :
       {JournalFound::kPartial, JournalFound::kBad, JournalFound::kUnusable}) {
    EXPECT_FALSE(GrantsAtOnce({.journal = journal, .is_said_first = true}));
  }
  for (const JournalFound journal : {JournalFound::kNone, JournalFound::kNew}) {
    EXPECT_FALSE(GrantsAtOnce(
        {.journal = journal, .is_said_first = true, .has_mark = true}));
  }
  EXPECT_EQ(
      Start({.journal = JournalFound::kBad, .is_said_first = true}).reason,
      "a journal was not sound, so this planner is not the first here");
}

TEST(LeaseStartTest, AWrongClockGivesAPlausibleEpoch) {
  const auto first_epoch = [](int64_t wall_millis) {
    return StartOf({.wall_millis = wall_millis}, kTimes).first_epoch;
  };
  EXPECT_EQ(first_epoch(-1), 1);
  EXPECT_EQ(first_epoch(0), 1);
  EXPECT_EQ(first_epoch(2), 2);
  EXPECT_EQ(first_epoch(PlannerStart::kMaxFirstEpoch),
            PlannerStart::kMaxFirstEpoch);
  EXPECT_EQ(first_epoch(PlannerStart::kMaxFirstEpoch + 1),
            PlannerStart::kMaxFirstEpoch);
}

}  // namespace
}  // namespace plimsoll::planner
