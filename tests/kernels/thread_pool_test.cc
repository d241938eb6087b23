// Every index is covered once, and pools come and go.
#include "kernels/cpu/thread_pool.h"

#include <sched.h>

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace plimsoll::kernels {
namespace {

TEST(ThreadPoolTest, ParallelForCoversEveryIndexOnce) {
  ThreadPool pool(3, WorkerCpus::kAny);
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

TEST(ThreadPoolTest, WhatWorkersWriteIsSeenAfterTheLoop) {
  ThreadPool pool(4, WorkerCpus::kAny);
  std::vector<int64_t> sums(64, 0);  // not atomic on purpose
  for (int64_t repeat = 0; repeat < 1000; ++repeat) {
    pool.ParallelFor(64, 1, [&](int64_t begin, int64_t, int) {
      sums[static_cast<size_t>(begin)] += repeat;
    });
  }
  EXPECT_EQ(sums, std::vector<int64_t>(64, 499500));
}

// Every worker and the caller hold a task at once, or this would not end.
TEST(ThreadPoolTest, EveryThreadTakesItsShare) {
  for (const int n_threads : {2, 5}) {
    ThreadPool pool(n_threads);
    EXPECT_EQ(pool.n_threads(), n_threads);
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::atomic<int> n_inside{0};
      std::vector<int> calls(static_cast<size_t>(n_threads), 0);
      pool.ParallelFor(n_threads, 1, [&](int64_t, int64_t, int thread) {
        ++calls[static_cast<size_t>(thread)];
        ++n_inside;
        while (n_inside < n_threads) std::this_thread::yield();
      });
      EXPECT_EQ(calls, std::vector<int>(static_cast<size_t>(n_threads), 1));
    }
  }
}

cpu_set_t AllowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  return set;
}

TEST(ThreadPoolTest, ACallerLeavesTheWorkersCpusAndMayRunWhereItMightBefore) {
  const cpu_set_t all = AllowedCpus();
  std::vector<size_t> cpus;
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all)) cpus.push_back(cpu);
  }
  if (cpus.size() < 2) GTEST_SKIP() << "there is one CPU";
  ThreadPool pool(2);  // its worker is on the second
  std::thread caller([&] {
    for (const size_t cpu : {cpus[0], cpus[1]}) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
      EXPECT_EQ(pool.MoveOffWorkerCpus(), cpu == cpus[1]);
      const cpu_set_t after = AllowedCpus();
      EXPECT_TRUE(CPU_EQUAL(&after, &one));
    }
  });
  caller.join();
}

TEST(ThreadPoolTest, WorkersThatAreEverywhereOrNowhereAreNotLeft) {
  const cpu_set_t all = AllowedCpus();
  const int n_cpus = CPU_COUNT(&all);
  if (n_cpus >= ThreadPool::kMaxThreads) GTEST_SKIP() << "too many CPUs";
  EXPECT_FALSE(ThreadPool(n_cpus + 1).MoveOffWorkerCpus());
  EXPECT_FALSE(ThreadPool(2, WorkerCpus::kAny).MoveOffWorkerCpus());
  EXPECT_FALSE(ThreadPool(1).MoveOffWorkerCpus());
}

TEST(ThreadPoolTest, AnUnusedPoolEnds) { ThreadPool pool(8); }

TEST(ThreadPoolTest, TheLargestPoolRuns) {
  ThreadPool pool(ThreadPool::kMaxThreads);
  std::atomic<int64_t> n_done{0};
  pool.ParallelFor(
      1000, 1, [&](int64_t begin, int64_t end, int) { n_done += end - begin; });
  EXPECT_EQ(n_done.load(), 1000);
}

TEST(ThreadPoolDeathTest, RefusesCountsOutOfRange) {
  EXPECT_DEATH(ThreadPool(0), "1 to kMaxThreads");
  EXPECT_DEATH(ThreadPool(ThreadPool::kMaxThreads + 1), "1 to kMaxThreads");
}

// A worker that wakes when the loop is over meets the destructor.
TEST(ThreadPoolTest, EndsRightAfterALoop) {
  std::atomic<int64_t> sum = 0;
  for (int i = 0; i < 500; ++i) {
    ThreadPool pool(3, WorkerCpus::kAny);
    pool.ParallelFor(2, 1,
                     [&](int64_t begin, int64_t, int) { sum += begin + 1; });
  }
  EXPECT_EQ(sum, 500 * 3);
}

}  // namespace
}  // namespace plimsoll::kernels
