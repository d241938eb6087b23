#include "services/worker/device_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/synchronization/notification.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

absl::Status Lost() { return absl::UnavailableError("fell off the bus"); }

TEST(DeviceGuardTest, AStepMayTakeItsTimeAndNotMore) {
  absl::Duration step = DeviceGuard::kMaxStep;
  const DeviceGuard::Options options = {
      .longest_step = [&step] { return step; },
      .probe = [] { return absl::OkStatus(); },
      .on_lost = [](const absl::Status&) {}};
  EXPECT_TRUE(DeviceGuard::Look(options).ok());
  step += absl::Milliseconds(1);
  const absl::Status status = DeviceGuard::Look(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("hangs"));
}

TEST(DeviceGuardTest, ADeviceIsAskedWhileItIsIdleOnly) {
  absl::Duration step = absl::Seconds(1);
  int asked = 0;
  const DeviceGuard::Options options = {
      .longest_step = [&step] { return step; },
      .probe =
          [&asked] {
            ++asked;
            return Lost();
          },
      .on_lost = [](const absl::Status&) {}};
  EXPECT_TRUE(DeviceGuard::Look(options).ok());
  EXPECT_EQ(asked, 0);
  step = absl::ZeroDuration();
  EXPECT_EQ(DeviceGuard::Look(options), Lost());
  EXPECT_EQ(asked, 1);
}

TEST(DeviceGuardTest, TellsTheFirstErrorOnceAlsoOneFromBeforeItWatched) {
  DeviceGuard guard;
  guard.Report(Lost());
  guard.Report(absl::UnavailableError("another"));
  absl::Notification told;
  guard.Watch({.longest_step = [] { return absl::ZeroDuration(); },
               .probe = [] { return absl::OkStatus(); },
               .on_lost =
                   [&told](const absl::Status& error) {
                     EXPECT_EQ(error, Lost());
                     told.Notify();  // a second time would end the test
                   },
               .interval = absl::InfiniteDuration()});
  told.WaitForNotification();
  guard.Report(Lost());
  guard.Stop();
}

TEST(DeviceGuardTest, NoticesByItselfThatADeviceIsLost) {
  DeviceGuard guard;
  absl::Notification told;
  guard.Watch({.longest_step = [] { return absl::ZeroDuration(); },
               .probe = [] { return Lost(); },
               .on_lost = [&told](const absl::Status&) { told.Notify(); },
               .interval = absl::Milliseconds(1)});
  told.WaitForNotification();
}

TEST(DeviceGuardTest, StopsWithoutALoss) {
  DeviceGuard guard;
  guard.Watch({.longest_step = [] { return absl::ZeroDuration(); },
               .probe = [] { return absl::OkStatus(); },
               .on_lost = [](const absl::Status&) { ADD_FAILURE(); },
               .interval = absl::InfiniteDuration()});
  guard.Stop();
  guard.Stop();
}

}  // namespace
}  // namespace plimsoll::services
