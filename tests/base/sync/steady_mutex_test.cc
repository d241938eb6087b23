#include "base/sync/steady_mutex.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"

namespace plimsoll {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

struct Counter {
  SteadyMutex mu;
  int value ABSL_GUARDED_BY(mu) = 0;
};

TEST(SteadyMutexTest, OneThreadAtATimeHoldsIt) {
  Counter counter;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&counter] {
      for (int j = 0; j < 10'000; ++j) {
        SteadyMutexLock lock(&counter.mu);
        ++counter.value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  SteadyMutexLock lock(&counter.mu);
  EXPECT_EQ(counter.value, 40'000);
}

TEST(SteadyMutexTest, EachUnlockWakesThoseWhoseConditionHolds) {
  Counter counter;
  const auto wait_for = [&counter](int value) {
    SteadyMutexLock lock(&counter.mu);
    const auto is_there = [&counter, value]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                              counter.mu) { return counter.value >= value; };
    EXPECT_TRUE(counter.mu.AwaitFor(absl::Condition(&is_there), kPatience));
    ++counter.value;
  };
  // Each waits for the one after it.
  std::vector<std::thread> threads;
  for (const int value : {3, 2, 1}) threads.emplace_back(wait_for, value);
  {
    SteadyMutexLock lock(&counter.mu);
    counter.value = 1;
    const auto are_all = [&counter]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                             counter.mu) { return counter.value == 4; };
    counter.mu.Await(absl::Condition(&are_all));
    EXPECT_EQ(counter.value, 4);
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SteadyMutexTest, AWaitEndsAfterItsTime) {
  Counter counter;
  SteadyMutexLock lock(&counter.mu);
  const auto never = [] { return false; };
  const absl::Time start = absl::Now();
  EXPECT_FALSE(
      counter.mu.AwaitFor(absl::Condition(&never), absl::Milliseconds(20)));
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(19));
  EXPECT_FALSE(
      counter.mu.AwaitFor(absl::Condition(&never), absl::ZeroDuration()));
  EXPECT_FALSE(
      counter.mu.AwaitFor(absl::Condition(&never), -absl::InfiniteDuration()));
  const auto always = [] { return true; };
  EXPECT_TRUE(
      counter.mu.AwaitFor(absl::Condition(&always), -absl::InfiniteDuration()));
}

TEST(SteadyMutexTest, WhoWaitedMayDestroyIt) {
  for (int i = 0; i < 1'000; ++i) {
    auto counter = std::make_unique<Counter>();
    Counter& shared = *counter;
    std::thread other([&shared] {
      SteadyMutexLock lock(&shared.mu);
      shared.value = 1;
    });
    {
      SteadyMutexLock lock(&shared.mu);
      const auto is_there = [&shared]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                                shared.mu) { return shared.value == 1; };
      shared.mu.Await(absl::Condition(&is_there));
    }
    counter.reset();
    other.join();
  }
}

}  // namespace
}  // namespace plimsoll
