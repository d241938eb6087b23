// What storms of faults have in common: tests that call the product at random
// while named points of it fail (base/sync/fault.h).
#ifndef PLIMSOLL_TESTS_SERVICES_STORM_H_
#define PLIMSOLL_TESTS_SERVICES_STORM_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "base/sync/fault.h"
#include "services/wire/errors.h"
#include "tests/sanitized.h"

namespace plimsoll::services {

inline constexpr int kStormThreads = 3;
inline constexpr int kStormCalls =  // calls of each thread
    plimsoll::testing::kIsLong ? 3'000 : 300;
// All fault points fail with this probability. A failed sync of a journal
// stays until the next start, so it is only counted: journal_test.cc has one
// fail in SQLite's file system.
inline constexpr char kStormPlan[] = "*=0.04,journal.sync=0";

// The seed of a storm, which it prints; PLIMSOLL_SEED plays one again.
inline uint64_t StormSeed() {
  const char* const wanted = std::getenv("PLIMSOLL_SEED");
  const uint64_t seed =
      wanted == nullptr ? 1 : std::strtoull(wanted, nullptr, 10);
  std::cout << "PLIMSOLL_SEED=" << seed << std::endl;
  return seed;
}

// A test that skips where a build has no points.
class StormTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kHasFaults) {
      GTEST_SKIP() << "this build has no fault points (PLIMSOLL_FAULTS)";
    }
  }
};

// What a client may be told while things fail: a code that says whose turn it
// is, and a reason. A server that died or hung gives none.
inline void ExpectDocumented(const absl::Status& status, const char* what) {
  if (status.ok()) return;
  using Code = absl::StatusCode;
  static const auto& codes = *new std::set<Code>{
      Code::kResourceExhausted,  Code::kUnavailable, Code::kNotFound,
      Code::kFailedPrecondition, Code::kDataLoss,    Code::kCancelled};
  EXPECT_TRUE(codes.count(status.code()) > 0) << what << ": " << status;
  EXPECT_TRUE(HasDetails(status)) << what << ": " << status;
  EXPECT_FALSE(status.message().empty()) << what << ": " << status;
}

// Polls until `condition` is true, for a minute at most.
inline void ExpectSoon(const std::function<bool()>& condition,
                       const char* what) {
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (!condition() && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_TRUE(condition()) << what;
}

// Has several threads make calls, `one_call` of a kind below `n_kinds`, while
// points fail. Prints what failed, and expects each of `points` to be passed.
inline void Storm(uint64_t seed, int n_kinds,
                  const std::function<void(int kind)>& one_call,
                  absl::Span<const char* const> points) {
  FaultPlan plan = *ParseFaultPlan(kStormPlan);
  plan.seed = seed;
  const ScopedFaults faults(std::move(plan));
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kStormThreads; ++i) {
    threads.emplace_back([&one_call, n_kinds, seed, i] {
      std::mt19937_64 random(seed * kStormThreads + i);
      for (int call = 0; call < kStormCalls; ++call) {
        one_call(std::uniform_int_distribution<int>(0, n_kinds - 1)(random));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int64_t n_fired = 0;
  for (const FaultCount& count : faults.Counts()) {
    std::cout << count.point << ": " << count.fired << " of " << count.passes
              << std::endl;
    n_fired += count.fired;
  }
  EXPECT_GE(n_fired, 20);
  for (const char* const point : points) {
    EXPECT_GT(faults.CountOf(point).passes, 0) << point;
  }
}

}  // namespace plimsoll::services

#endif  // PLIMSOLL_TESTS_SERVICES_STORM_H_
