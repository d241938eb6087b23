// Answers that wait for whoever guesses tokens.
#include "services/server/access/refusal_delay.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace plimsoll::services {
namespace {

TEST(RefusalDelayTest, AnAnswerComesAfterTheTime) {
  constexpr absl::Duration kShort = absl::Milliseconds(50);
  absl::Notification is_given;
  RefusalDelay delay(kShort);
  const absl::Time begin = absl::Now();
  delay.Later([&is_given] { is_given.Notify(); });
  is_given.WaitForNotification();
  // The system's clock counts milliseconds here and nanoseconds there.
  EXPECT_GE(absl::Now() - begin, kShort - absl::Milliseconds(2));
  EXPECT_EQ(delay.n_waiting(), 0u);
}

TEST(RefusalDelayTest, AsManyWaitAsTheLimitAndOneMoreAnswersTheOldest) {
  std::vector<size_t> given;
  RefusalDelay delay(absl::Hours(1));
  for (size_t i = 0; i < RefusalDelay::kMaxWaiting; ++i) {
    delay.Later([&given, i] { given.push_back(i); });
  }
  EXPECT_EQ(delay.n_waiting(), RefusalDelay::kMaxWaiting);
  EXPECT_TRUE(given.empty());
  delay.Later([&given] { given.push_back(RefusalDelay::kMaxWaiting); });
  EXPECT_EQ(delay.n_waiting(), RefusalDelay::kMaxWaiting);
  EXPECT_EQ(given, std::vector<size_t>{0});
}

TEST(RefusalDelayTest, ItsEndGivesEveryAnswerOnce) {
  int n_given = 0;
  auto delay = std::make_unique<RefusalDelay>(absl::Hours(1));
  for (int i = 0; i < 3; ++i) delay->Later([&n_given] { ++n_given; });
  EXPECT_EQ(n_given, 0);
  delay = nullptr;
  EXPECT_EQ(n_given, 3);
}

}  // namespace
}  // namespace plimsoll::services
