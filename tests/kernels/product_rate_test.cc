// The count that a rate is made of is that of the products done.
#include "kernels/cpu/product_rate.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/cpu/target.h"

namespace plimsoll::kernels {
namespace {

void ExpectEveryTaskIsCounted(int64_t (*multiply)(int64_t, ThreadPool&),
                              int64_t divisor) {
  for (const std::string& target : AvailableCpuTargets()) {
    ASSERT_TRUE(SetCpuTarget(target).ok());
    ThreadPool one(1, WorkerCpus::kAny);
    const int64_t products = multiply(1, one);
    EXPECT_GT(products, 0) << target;
    EXPECT_EQ(products % divisor, 0) << target;
    for (const int n_threads : {1, 2, 5}) {
      ThreadPool pool(n_threads, WorkerCpus::kAny);
      EXPECT_EQ(multiply(0, pool), 0) << target;
      EXPECT_EQ(multiply(7, pool), 7 * products) << target;
    }
  }
  ASSERT_TRUE(SetCpuTarget("").ok());
}

// A vector has at least four lanes, of at least two products of integers each.
TEST(MultiplyOnesTest, EveryTaskOfEveryPathIsCountedOnce) {
  ExpectEveryTaskIsCounted(MultiplyOnes, 8);
}
TEST(MultiplyOnesTest, TasksOfFloatsAreCountedToo) {
  ExpectEveryTaskIsCounted(MultiplyFloatOnes, 4);
}

}  // namespace
}  // namespace plimsoll::kernels
