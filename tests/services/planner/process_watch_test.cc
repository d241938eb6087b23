// Seeing processes end.
#include "services/planner/process_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "tests/services/planner/sleeper.h"

namespace plimsoll::services {
namespace {

using testing::Sleeper;
using Result = ProcessWatch::Result;

std::string NameOf(const Sleeper& sleeper) {
  return ToString(sleeper.OwnName());
}

TEST(ProcessWatchTest, AnEndIsToldOnceAndWatchedNoLonger) {
  absl::Mutex mu;
  std::multiset<std::string> ended;
  ProcessWatch watch(
      [&](const std::string& process) {
        absl::MutexLock lock(&mu);
        ended.insert(process);
      },
      [] {});
  Sleeper sleeper;
  const std::string name = NameOf(sleeper);
  EXPECT_EQ(watch.Watch(name), Result::kWatching);
  EXPECT_EQ(watch.Watch(name), Result::kWatching);
  EXPECT_TRUE(watch.IsWatching(name));
  sleeper.Kill();
  {
    absl::MutexLock lock(&mu);
    const auto is_told = [&] { return ended.count(name) == 1; };
    mu.Await(absl::Condition(&is_told));
  }
  EXPECT_FALSE(watch.IsWatching(name));
  EXPECT_EQ(watch.Watch(name), Result::kGone);
}

TEST(ProcessWatchTest, WithoutDescriptorsAnEndIsSeenToo) {
  absl::Mutex mu;
  std::set<std::string> ended;
  ProcessWatch watch(
      [&](const std::string& process) {
        absl::MutexLock lock(&mu);
        ended.insert(process);
      },
      [] {}, {.descriptors = 1});
  Sleeper with;
  Sleeper without;
  Sleeper stopped;
  for (const Sleeper* sleeper : {&with, &without, &stopped}) {
    EXPECT_EQ(watch.Watch(NameOf(*sleeper)), Result::kWatching);
    EXPECT_TRUE(watch.IsWatching(NameOf(*sleeper)));
  }
  stopped.Stop();
  const std::string name = NameOf(without);
  without.Kill();
  {
    absl::MutexLock lock(&mu);
    const auto is_told = [&] { return ended.count(name) == 1; };
    mu.Await(absl::Condition(&is_told));
    EXPECT_EQ(ended.size(), 1u);
  }
  EXPECT_FALSE(watch.IsWatching(name));
  EXPECT_EQ(watch.Watch(name), Result::kGone);
  EXPECT_TRUE(watch.IsWatching(NameOf(stopped)));
}

TEST(ProcessWatchTest, ProcessesUpToTheLimitAndNotPastIt) {
  ProcessWatch watch([](const std::string&) {}, [] {},
                     {.descriptors = 2, .watched = 4});
  std::vector<std::unique_ptr<Sleeper>> sleepers;
  for (size_t i = 0; i < 4; ++i) {
    sleepers.push_back(std::make_unique<Sleeper>());
    ASSERT_EQ(watch.Watch(NameOf(*sleepers.back())), Result::kWatching);
  }
  const Sleeper one_more;
  EXPECT_EQ(watch.Watch(NameOf(one_more)), Result::kUnwatchable);
  const std::string first = NameOf(*sleepers[0]);
  sleepers[0]->Kill();
  while (watch.IsWatching(first)) std::this_thread::yield();
  EXPECT_EQ(watch.Watch(NameOf(one_more)), Result::kWatching);
}

TEST(ProcessWatchTest, WhoIsForgottenIsWatchedNoLonger) {
  absl::Mutex mu;
  std::set<std::string> ended;
  ProcessWatch watch(
      [&](const std::string& process) {
        absl::MutexLock lock(&mu);
        ended.insert(process);
      },
      [] {}, {.descriptors = 1, .watched = 2});
  Sleeper with;
  Sleeper without;
  Sleeper other;
  for (Sleeper* sleeper : {&with, &without}) {
    ASSERT_EQ(watch.Watch(NameOf(*sleeper)), Result::kWatching);
  }
  EXPECT_EQ(watch.Watch(NameOf(other)), Result::kUnwatchable);
  for (Sleeper* sleeper : {&with, &without}) {
    const std::string name = NameOf(*sleeper);
    watch.Forget(name);
    watch.Forget(name);  // once more is no harm
    EXPECT_FALSE(watch.IsWatching(name));
    sleeper->Kill();
  }
  // There is room for others, with a descriptor and without one.
  Sleeper last;
  for (Sleeper* sleeper : {&other, &last}) {
    const std::string name = NameOf(*sleeper);
    ASSERT_EQ(watch.Watch(name), Result::kWatching);
    sleeper->Kill();
    absl::MutexLock lock(&mu);
    const auto is_told = [&] { return ended.count(name) == 1; };
    mu.Await(absl::Condition(&is_told));
  }
  absl::MutexLock lock(&mu);
  EXPECT_EQ(ended.size(), 2u) << "the end of a forgotten one was told";
}

TEST(ProcessWatchTest, WhoIsForgottenMayBeWatchedAgain) {
  absl::Mutex mu;
  int n_ended = 0;
  Sleeper sleeper;
  const std::string name = NameOf(sleeper);
  const int before = testing::CountPidfds();
  ProcessWatch watch(
      [&](const std::string&) {
        absl::MutexLock lock(&mu);
        ++n_ended;
      },
      [] {});
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(watch.Watch(name), Result::kWatching);
    watch.Forget(name);
  }
  while (testing::CountPidfds() > before) std::this_thread::yield();
  ASSERT_EQ(watch.Watch(name), Result::kWatching);
  sleeper.Kill();
  absl::MutexLock lock(&mu);
  const auto is_told = [&] { return n_ended == 1; };
  mu.Await(absl::Condition(&is_told));
}

TEST(ProcessWatchTest, AThreadIsNotWatched) {
  ProcessWatch watch([](const std::string&) {}, [] {});
  std::string name;
  std::thread([&name] {
    ProcessIdentity identity = *OwnIdentity();
    identity.pid = gettid();
    identity.start_ticks = StartTicks(identity.pid).value_or(0);
    name = ToString(identity);
  }).join();
  EXPECT_NE(watch.Watch(name), Result::kWatching) << "one that has ended";
  absl::Notification is_over;
  absl::Notification is_named;
  std::thread thread([&] {
    ProcessIdentity identity = *OwnIdentity();
    identity.pid = gettid();
    identity.start_ticks = StartTicks(identity.pid).value_or(0);
    name = ToString(identity);
    is_named.Notify();
    is_over.WaitForNotification();
  });
  is_named.WaitForNotification();
  EXPECT_EQ(watch.Watch(name), Result::kUnwatchable);
  EXPECT_FALSE(watch.IsWatching(name));
  is_over.Notify();
  thread.join();
}

// A process that lives counts as one, whatever cannot be opened.
TEST(ProcessWatchTest, WithoutDescriptorsNobodyIsDead) {
  absl::Mutex mu;
  std::set<std::string> ended;
  int n_ticks = 0;
  ProcessWatch watch(
      [&](const std::string& process) {
        absl::MutexLock lock(&mu);
        ended.insert(process);
      },
      [&] {
        absl::MutexLock lock(&mu);
        ++n_ticks;
      });
  Sleeper sleeper;
  const std::string name = NameOf(sleeper);
  {
    const testing::NoDescriptors none;
    EXPECT_EQ(watch.Watch(name), Result::kWatching);
    absl::MutexLock lock(&mu);
    const int before = n_ticks;
    const auto are_over = [&] { return n_ticks >= before + 2; };
    mu.Await(absl::Condition(&are_over));
    EXPECT_TRUE(ended.empty());
  }
  EXPECT_TRUE(watch.IsWatching(name));
  sleeper.Kill();
  absl::MutexLock lock(&mu);
  const auto is_told = [&] { return ended.count(name) == 1; };
  mu.Await(absl::Condition(&is_told));
}

}  // namespace
}  // namespace plimsoll::services
