#include "base/sync/steady_notification.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "absl/time/time.h"

namespace plimsoll {
namespace {

TEST(SteadyNotificationTest, AWaitEndsWhenItHappens) {
  SteadyNotification done;
  std::thread other([&done] { done.Notify(); });
  EXPECT_TRUE(done.WaitFor(absl::InfiniteDuration()));
  EXPECT_TRUE(done.WaitFor(absl::ZeroDuration()));
  other.join();
}

TEST(SteadyNotificationTest, AWaitEndsAfterItsTime) {
  SteadyNotification done;
  EXPECT_FALSE(done.WaitFor(absl::ZeroDuration()));
  EXPECT_FALSE(done.WaitFor(absl::Milliseconds(5)));
}

TEST(SteadyNotificationTest, WhoWaitedMayDestroyIt) {
  for (int i = 0; i < 1'000; ++i) {
    std::optional<SteadyNotification> done;
    done.emplace();
    std::thread other([&done = *done] { done.Notify(); });
    EXPECT_TRUE(done->WaitFor(absl::InfiniteDuration()));
    done.reset();
    other.join();
  }
}

}  // namespace
}  // namespace plimsoll
