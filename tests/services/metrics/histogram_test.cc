// Counts between bounds, and counting on several threads.
#include "services/metrics/histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <thread>
#include <vector>

namespace plimsoll::services {
namespace {

constexpr std::array kBounds = {1.0, 2.0, 4.0};

TEST(HistogramTest, AValueOnABoundCountsBelowIt) {
  Histogram histogram(kBounds);
  for (const double value : {0.5, 1.0, 1.5, 4.0, 5.0}) {
    histogram.Observe(value);
  }
  const auto read = histogram.Read();
  ASSERT_EQ(read.bucket.size(), 4u);
  EXPECT_EQ(read.bucket[0].cumulative_count, 2u);
  EXPECT_EQ(read.bucket[1].cumulative_count, 3u);
  EXPECT_EQ(read.bucket[2].cumulative_count, 4u);
  EXPECT_EQ(read.bucket[3].cumulative_count, 5u);
  EXPECT_EQ(read.bucket[2].upper_bound, 4.0);
  EXPECT_TRUE(std::isinf(read.bucket[3].upper_bound));
  EXPECT_EQ(read.sample_count, 5u);
  EXPECT_EQ(read.sample_sum, 12.0);
}

TEST(HistogramTest, LosesNothingOfSeveralThreads) {
  Histogram histogram(kBounds);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&histogram] {
      for (int n = 0; n < 1'000; ++n) histogram.Observe(3.0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(histogram.Read().sample_count, 4'000u);
  EXPECT_EQ(histogram.Read().sample_sum, 12'000.0);
}

TEST(HistogramTest, TakesAsManyBoundsAsItHasCounts) {
  const std::vector<double> most(Histogram::kMaxBounds, 1.0);
  EXPECT_EQ(Histogram(most).Read().bucket.size(), Histogram::kMaxBounds + 1);
  const std::vector<double> more(Histogram::kMaxBounds + 1, 1.0);
  EXPECT_DEATH(Histogram{more}, "there is a count for each");
}

}  // namespace
}  // namespace plimsoll::services
