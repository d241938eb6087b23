// A share that gets no memory: nothing is counted, and nothing is given back.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "services/server/byte_budget.h"
#include "tests/failing_new.h"

namespace plimsoll::services {
namespace {

TEST(ByteBudgetMemoryTest, ACallThatGetsNoMemoryHasNoShare) {
  ByteBudget budget(1 << 20);
  const std::string peer(40, 'p');
  const int64_t n_failed = plimsoll::testing::FailEachAllocation(
      [&] {
        ByteBudget::Share share = budget.Enter(peer);
        EXPECT_EQ(budget.traffic().n_live, 1);
      },
      [&](bool) {
        EXPECT_EQ(budget.traffic().n_live, 0);
        EXPECT_EQ(budget.traffic().held_bytes, 0);
        EXPECT_TRUE(budget.Take("other", 1'000).ok());
      });
  EXPECT_GE(n_failed, 2);  // the peer's name, and its place
}

}  // namespace
}  // namespace plimsoll::services
