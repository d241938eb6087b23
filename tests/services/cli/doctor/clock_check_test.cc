// Diagnoses of clocks that run, jump, stand still or are wrong.
#include "services/cli/doctor/clock_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/clock.h"

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::Time Noon(int year) {
  return absl::FromCivil(absl::CivilSecond(year, 6, 1, 12),
                         absl::UTCTimeZone());
}

constexpr absl::Duration kAtOnce = absl::ZeroDuration();

// A reading `ms` after the first, with the time of day `wall`, that took
// `taken`.
ClockReading At(int64_t ms, absl::Time wall, absl::Duration taken) {
  const absl::Time boot =
      absl::UnixEpoch() + absl::Hours(5) + absl::Milliseconds(ms);
  return {boot, wall, boot + taken};
}

Diagnosis AfterJump(absl::Duration jump, absl::Duration taken) {
  const absl::Time wall = Noon(2027);
  return CheckClocks(At(0, wall, taken),
                     At(20, wall + absl::Milliseconds(20) + jump, taken));
}

TEST(ClockCheckTest, ClocksThatGoTogetherAreOk) {
  const Diagnosis found = AfterJump(absl::ZeroDuration(), kAtOnce);
  EXPECT_EQ(found.health, Health::kOk);
  EXPECT_EQ(found.found,
            "2027-06-01T12:00:00Z, and both clocks go the same way");
  EXPECT_THAT(found.fix, IsEmpty());
}

TEST(ClockCheckTest, AJumpOfMoreThanAMillisecondIsAWarning) {
  for (const int sign : {-1, 1}) {
    EXPECT_EQ(AfterJump(sign * absl::Milliseconds(1), kAtOnce).health,
              Health::kOk);
    const Diagnosis found =
        AfterJump(sign * absl::Microseconds(1'001), kAtOnce);
    EXPECT_EQ(found.health, Health::kWarning);
    EXPECT_THAT(found.found, HasSubstr("jumped by 1ms"));
    EXPECT_THAT(found.fix, HasSubstr("timedatectl"));
  }
  EXPECT_THAT(AfterJump(-absl::Hours(1), kAtOnce).found,
              HasSubstr("jumped by 1h"));
}

TEST(ClockCheckTest, AProcessThatWaitedBetweenTwoClocksSawNoJump) {
  const absl::Duration taken = absl::Milliseconds(15);
  EXPECT_EQ(AfterJump(absl::Milliseconds(16), taken).health, Health::kOk);
  EXPECT_EQ(AfterJump(-absl::Milliseconds(16), taken).health, Health::kOk);
  EXPECT_EQ(AfterJump(absl::Milliseconds(17), taken).health, Health::kWarning);
  EXPECT_EQ(AfterJump(-absl::Milliseconds(17), taken).health, Health::kWarning);
}

TEST(ClockCheckTest, ATimeOfDayThatCannotBeIsAWarning) {
  const auto health = [](absl::Time wall) {
    const absl::Duration wait = absl::Milliseconds(20);
    return CheckClocks(At(0, wall - wait, kAtOnce), At(20, wall, kAtOnce))
        .health;
  };
  const absl::TimeZone utc = absl::UTCTimeZone();
  const absl::Duration second = absl::Seconds(1);
  const absl::Time first = absl::FromCivil(absl::CivilSecond(2026, 1, 1), utc);
  const absl::Time last = absl::FromCivil(absl::CivilSecond(2100, 1, 1), utc);
  EXPECT_EQ(health(first), Health::kOk);
  EXPECT_EQ(health(first - second), Health::kWarning);
  EXPECT_EQ(health(last - second), Health::kOk);
  EXPECT_EQ(health(last), Health::kWarning);
  EXPECT_EQ(health(absl::UnixEpoch()), Health::kWarning);
}

TEST(ClockCheckTest, ABootClockThatDoesNotRunIsAnError) {
  const absl::Time wall = Noon(2027);
  EXPECT_EQ(CheckClocks(At(0, wall, kAtOnce), At(0, wall, kAtOnce)).health,
            Health::kError);
  // What a clock gives that the system does not have.
  const ClockReading none = {absl::UnixEpoch(), wall, absl::UnixEpoch()};
  const Diagnosis found = CheckClocks(none, none);
  EXPECT_EQ(found.health, Health::kError);
  EXPECT_THAT(found.found, HasSubstr("CLOCK_BOOTTIME"));
  EXPECT_THAT(found.fix, HasSubstr("kernel"));
}

TEST(ClockReadingsTest, ThisMachinesClocksRun) {
  const ClockReading first = ReadClocks();
  EXPECT_LE(first.boot_before, first.boot_after);
  EXPECT_LE(first.wall, absl::Now());
  EXPECT_LE(kClockWait, absl::Milliseconds(100));
  ClockReading second = ReadClocks();
  while (second.boot_before <= first.boot_after) second = ReadClocks();
  EXPECT_NE(CheckClocks(first, second).health, Health::kError);
}

}  // namespace
}  // namespace plimsoll::cli
