#include "worker/text/stop_counter.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace plimsoll::worker {
namespace {

TEST(StopCounterTest, ChecksOnceInSoManyUnits) {
  int n_checks = 0;
  const auto check = [&] {
    ++n_checks;
    return absl::OkStatus();
  };
  StopCounter counter(check);
  for (int64_t i = 1; i < StopCounter::kUnits; ++i) {
    ASSERT_TRUE(counter.Spend(1).ok());
  }
  EXPECT_EQ(n_checks, 0);
  ASSERT_TRUE(counter.Spend(1).ok());
  EXPECT_EQ(n_checks, 1);
  ASSERT_TRUE(counter.Spend(StopCounter::kUnits - 1).ok());
  EXPECT_EQ(n_checks, 1);
  ASSERT_TRUE(counter.Spend(10 * StopCounter::kUnits).ok());
  EXPECT_EQ(n_checks, 2) << "what is spent at once is checked once";
}

TEST(StopCounterTest, ReturnsTheErrorOfTheCheck) {
  absl::Status status = absl::CancelledError("gone");
  const auto check = [&] { return status; };
  StopCounter counter(check);
  EXPECT_TRUE(counter.Spend(1).ok());
  EXPECT_EQ(counter.Spend(StopCounter::kUnits), status);
  EXPECT_TRUE(counter.Spend(1).ok()) << "until the next check";
}

}  // namespace
}  // namespace plimsoll::worker
