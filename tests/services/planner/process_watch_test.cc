// Seeing processes end.
#include "services/planner/process_watch.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/services/planner/sleeper.h"

namespace plimsoll::services {
namespace {

using testing::Sleeper;
using Result = ProcessWatch::Result;

std::string NameOf(const Sleeper& sleeper) {
  const v1::ProcessIdentity identity = sleeper.Identity();
  return ToString(
      {.pid = identity.pid(),
       .start_ticks = static_cast<int64_t>(identity.start_ticks()),
       .boot_id = identity.boot_id(),
       .pid_namespace = static_cast<int64_t>(identity.pid_namespace())});
}

TEST(ProcessIdentityTest, OursIsOneWordAndBack) {
  const auto own = OwnIdentity();
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(own->pid, getpid());
  EXPECT_GT(own->start_ticks, 0);
  const auto back = ParseIdentity(ToString(*own));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(ToString(*back), ToString(*own));
}

TEST(ProcessIdentityTest, OtherWordsAreNone) {
  for (const char* text :
       {"", "a", "boot:1:2", "boot:1:2:3:4", ":1:2:3", "boot:x:2:3",
        "boot:1:0:3", "boot:1:-2:3", "boot:1:2:99999999999999999999"}) {
    EXPECT_FALSE(ParseIdentity(text).has_value()) << text;
  }
  const std::string longest(ProcessIdentity::kMaxBootIdBytes, 'b');
  EXPECT_TRUE(ParseIdentity(longest + ":1:2:3").has_value());
  EXPECT_FALSE(ParseIdentity(longest + "b:1:2:3").has_value());
}

TEST(ProcessIdentityTest, AProcessThatIsNotThereNeverStarted) {
  EXPECT_FALSE(StartTicks(-1).has_value());
  EXPECT_TRUE(StartTicks(getpid()).has_value());
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

}  // namespace
}  // namespace plimsoll::services
