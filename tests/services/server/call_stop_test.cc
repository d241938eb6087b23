#include "services/server/call_stop.h"

#include <gtest/gtest.h>

#include "absl/time/clock.h"

namespace plimsoll::services {
namespace {

TEST(CallStopTest, WithoutADeadlineItStopsOnlyWhenItIsTold) {
  CallStop stop;
  EXPECT_TRUE(stop.Check().ok());
  stop.Cancel();
  EXPECT_EQ(stop.Check().code(), absl::StatusCode::kCancelled);
}

TEST(CallStopTest, TheDeadlineComesBeforeOtherReasons) {
  CallStop stop(absl::ZeroDuration());
  stop.Cancel();
  stop.Abort();
  EXPECT_EQ(stop.Check().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(CallStopTest, AGoneClientComesBeforeTheEndOfTheProcess) {
  CallStop stop;
  stop.Abort();
  EXPECT_EQ(stop.Check().code(), absl::StatusCode::kUnavailable);
  stop.Cancel();
  EXPECT_EQ(stop.Check().code(), absl::StatusCode::kCancelled);
}

TEST(CallStopTest, ItStopsWhenItsTimeIsOver) {
  const CallStop stop(absl::Milliseconds(30));
  while (stop.Check().ok()) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(stop.Check().code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace plimsoll::services
