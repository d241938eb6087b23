#include "services/worker/process/device_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/synchronization/notification.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
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

TEST(DeviceGuardTest, StepsWithTheHostMayTakeLonger) {
  absl::Duration step = DeviceGuard::kMaxStepWithHost;
  const DeviceGuard::Options options = {
      .longest_step = [&step] { return step; },
      .probe = [] { return absl::OkStatus(); },
      .on_lost = [](const absl::Status&) {},
      .max_step = [] { return DeviceGuard::kMaxStepWithHost; }};
  EXPECT_TRUE(DeviceGuard::Look(options).ok());
  step += absl::Milliseconds(1);
  EXPECT_THAT(std::string(DeviceGuard::Look(options).message()),
              HasSubstr("more than 10m"));
}

TEST(FindLostTest, IsThatWhichFailsOrDoesNotAnswer) {
  const auto well = [] { return absl::OkStatus(); };
  EXPECT_THAT(FindLost({well, Lost, well}, absl::InfiniteDuration()),
              ElementsAre(1));
  const auto end = std::make_shared<absl::Notification>();
  const auto hangs = [end] {
    end->WaitForNotification();
    return absl::OkStatus();
  };
  // A check that is well may be as late as one that hangs without a processor.
  EXPECT_THAT(FindLost({Lost, hangs}, absl::ZeroDuration()), ElementsAre(0, 1));
  end->Notify();
}

TEST(FindLostTest, IsAnyOfThemWhereNoneAdmitsIt) {
  const auto well = [] { return absl::OkStatus(); };
  EXPECT_THAT(FindLost({well, well}, absl::InfiniteDuration()),
              ElementsAre(0, 1));
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
