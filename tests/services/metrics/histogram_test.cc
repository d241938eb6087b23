// Counts between bounds, and counting on several threads.
#include "services/metrics/histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
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
  const Histogram::Counts read = histogram.Read();
  ASSERT_EQ(read.bounds.size(), 3u);
  EXPECT_EQ(read.bounds[2], 4.0);
  EXPECT_EQ(read.cumulative[0], 2u);
  EXPECT_EQ(read.cumulative[1], 3u);
  EXPECT_EQ(read.cumulative[2], 4u);
  EXPECT_EQ(read.cumulative[3], 5u);
  EXPECT_EQ(read.total(), 5u);
  EXPECT_EQ(read.sum, 12.0);
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
  EXPECT_EQ(histogram.Read().total(), 4'000u);
  EXPECT_EQ(histogram.Read().sum, 12'000.0);
}

TEST(HistogramTest, TakesAsManyBoundsAsItHasCounts) {
  const std::vector<double> most(Histogram::kMaxBounds, 1.0);
  Histogram histogram(most);
  histogram.Observe(2.0);
  EXPECT_EQ(histogram.Read().cumulative[Histogram::kMaxBounds - 1], 0u);
  EXPECT_EQ(histogram.Read().total(), 1u);
  const std::vector<double> more(Histogram::kMaxBounds + 1, 1.0);
  EXPECT_DEATH(Histogram{more}, "there is a count for each");
}

}  // namespace
}  // namespace plimsoll::services
