#include "base/json.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/failing_new.h"
#include "tests/sanitized.h"

namespace plimsoll {
namespace {

TEST(JsonDeathTest, AnObjectThatGetsNoTableEndsTheProcess) {
  // A sanitizer ends the process by itself, in its own way.
  if (testing::kIsSanitized) GTEST_SKIP();
  const auto make_object = [] {
    nlohmann::json json;
    testing::FailAllocation(1);
    json["a"] = 1;
  };
  EXPECT_EXIT(make_object(), ::testing::KilledBySignal(SIGABRT), "");
}

TEST(JsonTest, AnObjectIsWholeIfTheMemoryOfItsEntryFails) {
  nlohmann::json json = nlohmann::json::object();
  testing::FailAllocation(1);
  EXPECT_THROW(json["a"] = 1, std::bad_alloc);
  testing::FailAllocation(0);
  EXPECT_EQ(json.dump(), "{}");
}

}  // namespace
}  // namespace plimsoll
