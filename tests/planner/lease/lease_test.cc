// The times of a lease, and its names.
#include "planner/lease/lease.h"

#include <gtest/gtest.h>

namespace plimsoll::planner {
namespace {

constexpr absl::Duration kTick = absl::Nanoseconds(1);

bool IsRefused(absl::Duration ttl, absl::Duration grace,
               absl::Duration recovery) {
  return absl::IsInvalidArgument(
      CheckLeaseTimes({.ttl = ttl, .grace = grace, .recovery = recovery}));
}

TEST(LeaseTimesTest, TimesUpToTheirLimitsAndNotPastThem) {
  constexpr absl::Duration kMinTtl = LeaseTimes::kMinTtl;
  constexpr absl::Duration kMinGrace = LeaseTimes::kMinGrace;
  constexpr absl::Duration kMax = LeaseTimes::kMaxTime;
  EXPECT_TRUE(CheckLeaseTimes({}).ok());
  EXPECT_FALSE(IsRefused(kMinTtl, kMinGrace, kMinTtl));
  EXPECT_FALSE(IsRefused(kMax, kMax, kMax));
  EXPECT_TRUE(IsRefused(kMinTtl - kTick, kMinGrace, kMinTtl));
  EXPECT_TRUE(IsRefused(kMinTtl, kMinGrace - kTick, kMinTtl));
  EXPECT_TRUE(IsRefused(kMinTtl, kMinGrace, kMinTtl - kTick));
  EXPECT_TRUE(IsRefused(kMax + kTick, kMax, kMax));
  EXPECT_TRUE(IsRefused(kMax, kMax + kTick, kMax));
  EXPECT_TRUE(IsRefused(kMax, kMax, kMax + kTick));
  EXPECT_EQ(CheckLeaseTimes({.recovery = absl::Seconds(9)}).message(),
            "the recovery time is 9s, not 10s to 1h");
}

TEST(LeaseStateTest, EveryStateHasAName) {
  EXPECT_STREQ(LeaseStateName(LeaseState::kReserved), "RESERVED");
  EXPECT_STREQ(LeaseStateName(LeaseState::kConfirmed), "CONFIRMED");
  EXPECT_STREQ(LeaseStateName(LeaseState::kSuspect), "SUSPECT");
  EXPECT_STREQ(LeaseStateName(LeaseState::kReleased), "RELEASED");
}

}  // namespace
}  // namespace plimsoll::planner
