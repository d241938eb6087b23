#include "services/host/hang_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

#include "tests/services/host/liveness.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::Liveness;

constexpr absl::Duration kLimit = absl::Minutes(1);

TEST(HangWatchTest, WorkMayTakeItsTimeAndNotMore) {
  std::atomic<int64_t> nanos = absl::ToInt64Nanoseconds(kLimit);
  std::atomic<int> n_looks = 0;
  Liveness liveness;
  HangWatch watch;
  watch.Watch({.longest_stall =
                   [&] {
                     ++n_looks;
                     return Stall{absl::Nanoseconds(nanos.load()), "a step"};
                   },
               .limit = kLimit,
               .on_change = [&](bool is_alive) { liveness.Set(is_alive); },
               .interval = absl::Milliseconds(1)});
  while (n_looks < 3) std::this_thread::yield();
  EXPECT_EQ(liveness.n_changes(), 0);
  ++nanos;
  liveness.Await(false);
  const int n_before = n_looks;
  while (n_looks < n_before + 3) std::this_thread::yield();
  EXPECT_EQ(liveness.n_changes(), 1);
  --nanos;
  liveness.Await(true);
  watch.Stop();
  EXPECT_EQ(liveness.n_changes(), 2);
}

TEST(HangWatchTest, ALookThatWaitsForALockIsAHangToo) {
  std::mutex lock;
  Liveness liveness;
  HangWatch watch;
  lock.lock();
  watch.Watch({.longest_stall =
                   [&] {
                     const std::lock_guard held(lock);
                     return Stall{};
                   },
               .lock = "the lock",
               .on_change = [&](bool is_alive) { liveness.Set(is_alive); },
               .interval = absl::Milliseconds(1),
               .look_time = absl::Milliseconds(20)});
  liveness.Await(false);
  lock.unlock();
  liveness.Await(true);
  watch.Stop();
  EXPECT_EQ(liveness.n_changes(), 2);
}

}  // namespace
}  // namespace plimsoll::services
