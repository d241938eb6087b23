// JSON that is checked without memory: the check ends, and the next one is
// whole.
#include <gtest/gtest.h>

#include <new>
#include <string>

#include "tests/failing_new.h"
#include "worker/text/json_check.h"

namespace plimsoll::worker {
namespace {

TEST(JsonMemoryTest, ACheckThatGetsNoMemoryLeavesNothingBroken) {
  const std::string text =
      R"({"a name that needs memory of its own": [{"b": 1}, {"b": {}}], "c": 2})";
  const int64_t n_failed = plimsoll::testing::FailEachAllocation(
      [&] { EXPECT_TRUE(CheckJson(text, 8).ok()); },
      [&](bool) { EXPECT_TRUE(CheckJson(text, 8).ok()); });
  EXPECT_GE(n_failed, 5);
}

}  // namespace
}  // namespace plimsoll::worker
