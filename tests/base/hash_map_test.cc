// A table that gets no memory ends the process.
#include "base/hash_map.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/sanitized.h"

namespace plimsoll {
namespace {

TEST(HashMapTest, FindsWhatWasAdded) {
  HashMap<int32_t, int32_t> map;
  for (int32_t i = 0; i < 1'000; ++i) map[i] = i * i;
  EXPECT_EQ(map.size(), 1'000u);
  EXPECT_EQ(map.at(30), 900);
  EXPECT_FALSE(map.contains(1'000));
}

TEST(FatalAllocatorDeathTest, WithoutMemoryTheProcessEnds) {
  if (testing::kIsSanitized) GTEST_SKIP() << "a sanitizer ends it first";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // A compiler that knew the number would warn of it.
  volatile size_t n_too_many = std::numeric_limits<size_t>::max() / 16;
  EXPECT_EXIT(FatalAllocator<int64_t>().allocate(n_too_many),
              ::testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace plimsoll
