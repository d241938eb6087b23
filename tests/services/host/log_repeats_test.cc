#include "services/host/log_repeats.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::services {
namespace {

const absl::Time kBegin = absl::FromUnixSeconds(1'000);

class LogRepeatsTest : public ::testing::Test {
 protected:
  // Takes as many lines of `message` as are shown in one window.
  void TakeAllShown(const std::string& message, absl::Time now) {
    for (int i = 0; i < LogRepeats::kMaxShown; ++i) {
      ASSERT_EQ(repeats_.Take(message, now), 0) << i;
    }
  }

  LogRepeats repeats_;
};

TEST_F(LogRepeatsTest, SoManyLinesAreShownAndNoMore) {
  TakeAllShown("a", kBegin);
  EXPECT_EQ(repeats_.Take("a", kBegin), std::nullopt);
  EXPECT_EQ(repeats_.Take("b", kBegin), 0);
}

TEST_F(LogRepeatsTest, ALaterLineSaysHowManyWereHidden) {
  TakeAllShown("a", kBegin);
  const absl::Time end = kBegin + LogRepeats::kWindow;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(repeats_.Take("a", end - absl::Nanoseconds(1)), std::nullopt);
  }
  EXPECT_EQ(repeats_.Take("a", end), 3);
  EXPECT_EQ(repeats_.Take("a", end), 0);
}

TEST_F(LogRepeatsTest, ManyMessagesTakeBoundedMemory) {
  TakeAllShown("a", kBegin);
  for (size_t i = 1; i < LogRepeats::kMaxMessages; ++i) {
    EXPECT_EQ(repeats_.Take(std::to_string(i), kBegin), 0);
  }
  EXPECT_EQ(repeats_.Take("a", kBegin), std::nullopt);
  // One message more makes all counts begin again.
  EXPECT_EQ(repeats_.Take("one more", kBegin), 0);
  EXPECT_EQ(repeats_.Take("a", kBegin), 0);
}

}  // namespace
}  // namespace plimsoll::services
