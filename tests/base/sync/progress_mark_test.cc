#include "base/sync/progress_mark.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace plimsoll {
namespace {

class ProgressMarkTest : public ::testing::Test {
 protected:
  absl::Time now_ = absl::UnixEpoch();
  ProgressMark mark_{[this] { return now_; }};
};

TEST_F(ProgressMarkTest, WithoutWorkNoTimePasses) {
  now_ += absl::Seconds(5);
  EXPECT_EQ(mark_.Age(), absl::ZeroDuration());
  EXPECT_EQ(mark_.StallTime(), absl::ZeroDuration());
}

TEST_F(ProgressMarkTest, WorkThatGoesOnAgesButDoesNotStall) {
  mark_.Begin();
  now_ += absl::Seconds(3);
  EXPECT_EQ(mark_.Age(), absl::Seconds(3));
  EXPECT_EQ(mark_.StallTime(), absl::Seconds(3));
  mark_.Touch();
  now_ += absl::Seconds(1);
  EXPECT_EQ(mark_.Age(), absl::Seconds(4));
  EXPECT_EQ(mark_.StallTime(), absl::Seconds(1));
}

TEST_F(ProgressMarkTest, WorkThatBeginsAgainHasNoAge) {
  mark_.Begin();
  now_ += absl::Seconds(3);
  mark_.Stop();
  EXPECT_EQ(mark_.Age(), absl::ZeroDuration());
  EXPECT_EQ(mark_.StallTime(), absl::ZeroDuration());
  now_ += absl::Seconds(3);
  mark_.Begin();
  EXPECT_EQ(mark_.Age(), absl::ZeroDuration());
  EXPECT_EQ(mark_.StallTime(), absl::ZeroDuration());
}

}  // namespace
}  // namespace plimsoll
