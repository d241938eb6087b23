// Every thread runs once, every index is covered once, and pools come and go.
#include "kernels/cpu/thread_pool.h"

#include <atomic>
#include <mutex>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace plimsoll::kernels {
namespace {

TEST(ThreadPoolTest, RunCallsEveryThreadOnce) {
  for (const int n_threads : {1, 2, 5}) {
    ThreadPool pool(n_threads);
    EXPECT_EQ(pool.n_threads(), n_threads);
    for (int repeat = 0; repeat < 200; ++repeat) {
      std::vector<int> calls(static_cast<size_t>(n_threads), 0);
      pool.Run([&](int thread) { ++calls[static_cast<size_t>(thread)]; });
      EXPECT_EQ(calls, std::vector<int>(static_cast<size_t>(n_threads), 1));
    }
  }
}

TEST(ThreadPoolTest, ParallelForCoversEveryIndexOnce) {
  ThreadPool pool(3, /*pin=*/false);
  for (const int64_t n : {0, 1, 2, 7, 64, 1001}) {
    for (const int64_t grain : {0, 1, 3, 64, 5000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
      pool.ParallelFor(n, grain, [&](int64_t begin, int64_t end, int thread) {
        EXPECT_LT(begin, end);
        EXPECT_GE(thread, 0);
        EXPECT_LT(thread, 3);
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      for (const auto& count : seen) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadPoolTest, WhatWorkersWriteIsSeenAfterRun) {
  ThreadPool pool(4, /*pin=*/false);
  std::vector<int64_t> sums(4, 0);  // not atomic on purpose
  for (int64_t repeat = 0; repeat < 1000; ++repeat) {
    pool.Run([&](int thread) { sums[static_cast<size_t>(thread)] += repeat; });
  }
  EXPECT_EQ(sums, std::vector<int64_t>(4, 499500));
}

TEST(ThreadPoolTest, AnUnusedPoolEnds) { ThreadPool pool(8); }

TEST(ThreadPoolTest, TheLargestPoolRuns) {
  ThreadPool pool(ThreadPool::kMaxThreads);
  std::atomic<int> calls{0};
  pool.Run([&](int) { ++calls; });
  EXPECT_EQ(calls.load(), ThreadPool::kMaxThreads);
}

TEST(ThreadPoolDeathTest, RefusesCountsOutOfRange) {
  EXPECT_DEATH(ThreadPool(0), "1 to kMaxThreads");
  EXPECT_DEATH(ThreadPool(ThreadPool::kMaxThreads + 1), "1 to kMaxThreads");
}

}  // namespace
}  // namespace plimsoll::kernels
