// What ThreadSanitizer must not take for a race although Abseil's libraries are
// not instrumented. Built in a TSan build alone.

#include <gtest/gtest.h>

#include <thread>

#include "absl/status/status.h"

namespace plimsoll {
namespace {

TEST(AbslOrderTest, AStatusThatTwoThreadsReadIsFreedByTheLast) {
  for (int i = 0; i < 100; ++i) {
    absl::Status mine = absl::InvalidArgumentError("a message on the heap");
    std::thread other([theirs = mine]() mutable {
      EXPECT_EQ(theirs.message(), "a message on the heap");
      theirs = absl::OkStatus();
    });
    EXPECT_EQ(mine.message(), "a message on the heap");
    mine = absl::OkStatus();
    other.join();
  }
}

}  // namespace
}  // namespace plimsoll
