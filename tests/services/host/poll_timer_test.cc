#include "services/host/poll_timer.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace plimsoll::services {
namespace {

TEST(PollTimerTest, ALookIsDueAfterTheInterval) {
  const absl::Time begin = absl::FromUnixSeconds(100);
  const absl::Duration step = absl::Milliseconds(1);
  PollTimer timer(begin);
  EXPECT_FALSE(timer.IsDue(begin));
  EXPECT_FALSE(timer.IsDue(begin + PollTimer::kInterval - step));
  EXPECT_TRUE(timer.IsDue(begin + PollTimer::kInterval));
  EXPECT_FALSE(timer.IsDue(begin + 2 * PollTimer::kInterval - step));
  EXPECT_TRUE(timer.IsDue(begin + 2 * PollTimer::kInterval));
}

TEST(PollTimerTest, AClockThatWasSetBackDoesNotStopTheLooking) {
  const absl::Time begin = absl::FromUnixSeconds(100);
  PollTimer timer(begin);
  EXPECT_TRUE(timer.IsDue(begin - absl::Hours(1)));
  EXPECT_FALSE(timer.IsDue(begin - absl::Hours(1)));
  EXPECT_TRUE(timer.IsDue(begin - absl::Hours(1) + PollTimer::kInterval));
}

}  // namespace
}  // namespace plimsoll::services
