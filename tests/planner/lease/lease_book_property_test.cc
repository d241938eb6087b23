// The book against a naive model written apart, over long random scripts.
#include <gtest/gtest.h>

#include <random>

#include "tests/planner/lease/lease_script.h"

namespace plimsoll::planner {
namespace {

class LeaseBookProperty : public ::testing::TestWithParam<uint64_t> {};

TEST_P(LeaseBookProperty, BehavesLikeTheNaiveModel) {
  std::mt19937_64 random(GetParam());
  LeaseScript script([&random](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  });
  for (int i = 0; i < 5'000; ++i) {
    ASSERT_EQ(script.Step(), "") << "step " << i;
  }
  EXPECT_GT(script.n_granted, 100);
}

INSTANTIATE_TEST_SUITE_P(Seeds, LeaseBookProperty,
                         ::testing::Range<uint64_t>(1, 31));

}  // namespace
}  // namespace plimsoll::planner
