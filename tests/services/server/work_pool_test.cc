#include "services/server/work_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// Far more than anything here takes: only a test that fails waits so long.
constexpr absl::Duration kTooLong = absl::Seconds(60);

std::unique_ptr<WorkPool> PoolOf(int n_threads) {
  return *WorkPool::Start(
      {.n_threads = n_threads, .start = WorkPool::StartThread});
}

// Work that is told apart by a name, and what became of it. Outlives its pool.
class Works {
 public:
  // Writes its name down when it starts.
  WorkPool::Job Job(const std::string& peer, const std::string& name) {
    return JobOf(WorkCost::kLong, peer, name);
  }
  WorkPool::Job QuickJob(const std::string& peer, const std::string& name) {
    return JobOf(WorkCost::kQuick, peer, name);
  }
  WorkPool::Job JobOf(WorkCost cost, const std::string& peer,
                      const std::string& name) {
    return {peer, cost, std::make_shared<CallStop>(),
            [this, name](const absl::Status& admitted) {
              absl::MutexLock lock(&mu_);
              if (admitted.ok()) {
                started_.push_back(name);
              } else {
                dropped_.push_back(name);
                last_error_ = admitted;
              }
            }};
  }
  std::vector<std::string> started() const {
    absl::MutexLock lock(&mu_);
    return started_;
  }
  std::vector<std::string> dropped() const {
    absl::MutexLock lock(&mu_);
    return dropped_;
  }
  absl::Status last_error() const {
    absl::MutexLock lock(&mu_);
    return last_error_;
  }

 private:
  mutable absl::Mutex mu_;
  std::vector<std::string> started_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> dropped_ ABSL_GUARDED_BY(mu_);
  absl::Status last_error_ ABSL_GUARDED_BY(mu_);
};

// Keeps one thread of a pool busy until it is told to go on.
class Blocker {
 public:
  Blocker(WorkPool& pool, WorkCost cost) : stop_(std::make_shared<CallStop>()) {
    const absl::Status queued =
        pool.Submit({"blocker", cost, stop_, [this](const absl::Status&) {
                       begun_.Notify();
                       go_on_.WaitForNotification();
                       seen_ = stop_->Check();
                       ended_.Notify();
                     }});
    EXPECT_TRUE(queued.ok()) << queued;
    if (queued.ok()) begun_.WaitForNotification();
  }
  ~Blocker() { End(); }

  void End() {
    if (!go_on_.HasBeenNotified()) go_on_.Notify();
    ended_.WaitForNotification();
  }
  CallStop& stop() { return *stop_; }
  // What its check said at the end.
  const absl::Status& seen() {
    End();
    return seen_;
  }

 private:
  const std::shared_ptr<CallStop> stop_;
  absl::Notification begun_;
  absl::Notification go_on_;
  absl::Notification ended_;
  absl::Status seen_;
};

TEST(WorkPoolTest, ItsThreadsGiveWayToOthers) {
  const auto nice = [] {
    return getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)));
  };
  const auto pool = PoolOf(1);
  int found = 0;
  absl::Notification done;
  ASSERT_TRUE(
      pool->Submit({"peer", WorkCost::kQuick, std::make_shared<CallStop>(),
                    [&](const absl::Status&) {
                      found = nice();
                      done.Notify();
                    }})
          .ok());
  done.WaitForNotification();
  EXPECT_EQ(found, std::min(nice() + WorkPool::kNice, 19));
}

TEST(WorkPoolTest, RefusesWhatTheQueueCannotHold) {
  Works works;
  const auto pool = PoolOf(1);
  Blocker blocker(*pool, WorkCost::kLong);
  for (size_t i = 0; i < WorkPool::kMaxQueued; ++i) {
    ASSERT_TRUE(pool->Submit(works.Job("peer", absl::StrCat(i))).ok());
  }
  const absl::Status refused = pool->Submit(works.Job("peer", "one more"));
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  EXPECT_EQ(DetailsOf(refused).reason, v1::ERROR_REASON_QUEUE_FULL);
  EXPECT_EQ(DetailsOf(refused).retry_after, WorkPool::kRetryDelay);
  blocker.End();
  ASSERT_TRUE(pool->Await(0, 0, kTooLong));
  EXPECT_EQ(works.started().size(), WorkPool::kMaxQueued);
}

TEST(WorkPoolTest, TheGreediestPeersNewestGivesWayToAnotherPeer) {
  Works works;
  const auto pool = PoolOf(1);
  Blocker blocker(*pool, WorkCost::kLong);
  for (size_t i = 0; i < WorkPool::kMaxQueued; ++i) {
    ASSERT_TRUE(pool->Submit(works.Job("flood", absl::StrCat(i))).ok());
  }
  ASSERT_TRUE(pool->Submit(works.Job("other", "a")).ok());
  EXPECT_THAT(works.dropped(),
              ElementsAre(absl::StrCat(WorkPool::kMaxQueued - 1)));
  EXPECT_EQ(works.last_error().code(), Code::kResourceExhausted);
  // Once both have as much, nobody gives way.
  for (size_t i = 1; i < WorkPool::kMaxQueued / 2; ++i) {
    ASSERT_TRUE(pool->Submit(works.Job("other", "b")).ok()) << i;
  }
  EXPECT_FALSE(pool->Submit(works.Job("other", "c")).ok());
  EXPECT_EQ(works.dropped().size(), WorkPool::kMaxQueued / 2);
}

// What waits is bounded in bytes, too.
TEST(WorkPoolTest, LargeRequestsTakeSeveralPlaces) {
  constexpr size_t kPlaces = 8;
  constexpr size_t kLarge = kPlaces * WorkPool::kPlaceBytes;
  Works works;
  const auto pool = PoolOf(1);
  Blocker blocker(*pool, WorkCost::kLong);
  const auto submit = [&](const std::string& peer, const std::string& name,
                          size_t bytes) {
    WorkPool::Job job = works.Job(peer, name);
    job.request_bytes = bytes;
    return pool->Submit(job);
  };
  for (size_t i = 0; i < WorkPool::kMaxQueued / kPlaces; ++i) {
    ASSERT_TRUE(submit("flood", absl::StrCat(i), kLarge).ok());
  }
  EXPECT_EQ(submit("flood", "one more", kLarge).code(),
            Code::kResourceExhausted);
  EXPECT_EQ(submit("flood", "small", 1).code(), Code::kResourceExhausted);
  // One of the large ones gives way to several small ones.
  for (size_t i = 0; i < kPlaces; ++i) {
    ASSERT_TRUE(pool->Submit(works.Job("other", "small")).ok());
  }
  EXPECT_THAT(works.dropped(), ElementsAre("7"));
  // A byte more is a place more: two have to go.
  ASSERT_TRUE(submit("third", "odd", kLarge + 1).ok());
  EXPECT_THAT(works.dropped(), ElementsAre("7", "6", "5"));
  // Small ones of a peer that has less than a large one would take.
  ASSERT_TRUE(submit("other", "large", kLarge).ok());
  EXPECT_EQ(works.dropped().size(), 4u);
  blocker.End();
  ASSERT_TRUE(pool->Await(0, 0, kTooLong));
}

TEST(WorkPoolTest, WorkOfACallThatGoesOnNeedsNoRoom) {
  Works works;
  const auto pool = PoolOf(1);
  Blocker blocker(*pool, WorkCost::kLong);
  WorkPool::Job job = works.Job("flood", "goes on");
  job.goes_on = true;
  for (size_t i = 0; i < WorkPool::kMaxQueued; ++i) {
    ASSERT_TRUE(pool->Submit(works.Job("flood", "new")).ok()) << i;
  }
  ASSERT_TRUE(pool->Submit(job).ok());
  EXPECT_FALSE(pool->Submit(works.Job("flood", "new")).ok());
  ASSERT_TRUE(pool->Submit(works.Job("other", "new")).ok());
  EXPECT_THAT(works.dropped(), ElementsAre("new"));
  blocker.End();
  ASSERT_TRUE(pool->Await(0, 0, kTooLong));
  EXPECT_THAT(works.started(), ::testing::Contains("goes on"));
}

TEST(WorkPoolTest, PeersTakeTurns) {
  Works works;
  const auto pool = PoolOf(1);
  Blocker blocker(*pool, WorkCost::kLong);
  for (const char* name : {"flood 1", "flood 2", "flood 3"}) {
    ASSERT_TRUE(pool->Submit(works.Job("flood", name)).ok());
  }
  ASSERT_TRUE(pool->Submit(works.Job("another", "another 1")).ok());
  ASSERT_TRUE(pool->Submit(works.Job("guest", "guest 1")).ok());
  blocker.End();
  ASSERT_TRUE(pool->Await(0, 0, kTooLong));
  EXPECT_THAT(works.started(), ElementsAre("flood 1", "guest 1", "another 1",
                                           "flood 2", "flood 3"));
}

TEST(WorkPoolTest, LongWorkLeavesAThreadForQuickWork) {
  Works works;
  const auto pool = PoolOf(3);
  Blocker first(*pool, WorkCost::kLong);
  Blocker second(*pool, WorkCost::kLong);
  ASSERT_TRUE(pool->Submit(works.Job("peer", "third long")).ok());
  ASSERT_TRUE(pool->Submit(works.QuickJob("peer", "quick")).ok());
  ASSERT_TRUE(pool->Await(2, 1, kTooLong));
  EXPECT_THAT(works.started(), ElementsAre("quick"));
}

TEST(WorkPoolTest, LongWorkIsNotLeftWaitingForQuickWork) {
  Works works;
  const auto pool = PoolOf(1);
  Blocker blocker(*pool, WorkCost::kQuick);
  for (const char* name : {"quick 1", "quick 2", "quick 3"}) {
    ASSERT_TRUE(pool->Submit(works.QuickJob("peer", name)).ok());
  }
  for (const char* name : {"long 1", "long 2"}) {
    ASSERT_TRUE(pool->Submit(works.Job("peer", name)).ok());
  }
  blocker.End();
  ASSERT_TRUE(pool->Await(0, 0, kTooLong));
  EXPECT_THAT(works.started(),
              ElementsAre("long 1", "quick 1", "long 2", "quick 2", "quick 3"));
}

TEST(WorkPoolTest, CancelDropsWhatWaits) {
  Works works;
  const auto pool = PoolOf(1);
  Blocker blocker(*pool, WorkCost::kLong);
  ASSERT_TRUE(pool->Submit(works.Job("peer", "before")).ok());
  WorkPool::Job job = works.Job("peer", "cancelled");
  const std::shared_ptr<CallStop> stop = job.stop;
  ASSERT_TRUE(pool->Submit(std::move(job)).ok());
  pool->Cancel(*stop);
  EXPECT_THAT(works.dropped(), ElementsAre("cancelled"));
  EXPECT_EQ(works.last_error().code(), Code::kCancelled);
  EXPECT_EQ(pool->n_queued(), 1u);
  // What comes after the cancellation does not start either.
  WorkPool::Job late = works.Job("peer", "late");
  late.stop = stop;
  EXPECT_EQ(pool->Submit(std::move(late)).code(), Code::kCancelled);
}

TEST(WorkPoolTest, CancelTellsWhatRuns) {
  const auto pool = PoolOf(1);
  Blocker blocker(*pool, WorkCost::kLong);
  EXPECT_TRUE(blocker.stop().Check().ok());
  pool->Cancel(blocker.stop());
  EXPECT_EQ(blocker.seen().code(), Code::kCancelled);
}

TEST(WorkPoolTest, WorkWhoseDeadlineHasPassedDoesNotStart) {
  Works works;
  const auto pool = PoolOf(1);
  WorkPool::Job job = works.Job("peer", "late");
  job.stop = std::make_shared<CallStop>(absl::ZeroDuration());
  EXPECT_EQ(pool->Submit(std::move(job)).code(), Code::kDeadlineExceeded);
  EXPECT_THAT(works.started(), ElementsAre());
}

TEST(WorkPoolTest, WorkWhoseDeadlinePassesWhileItWaitsDoesNotStart) {
  Works works;
  const auto pool = PoolOf(1);
  Blocker blocker(*pool, WorkCost::kLong);
  WorkPool::Job job = works.Job("peer", "late");
  const auto stop = std::make_shared<CallStop>(absl::Milliseconds(50));
  job.stop = stop;
  if (!pool->Submit(std::move(job)).ok()) GTEST_SKIP() << "a slow machine";
  while (stop->Check().ok()) absl::SleepFor(absl::Milliseconds(1));
  blocker.End();
  ASSERT_TRUE(pool->Await(0, 0, kTooLong));
  EXPECT_THAT(works.dropped(), ElementsAre("late"));
  EXPECT_EQ(works.last_error().code(), Code::kDeadlineExceeded);
}

TEST(WorkPoolTest, AbortEndsEverythingAndTakesNothingNew) {
  Works works;
  const auto pool = PoolOf(1);
  Blocker blocker(*pool, WorkCost::kLong);
  ASSERT_TRUE(pool->Submit(works.Job("peer", "waits")).ok());
  pool->Abort();
  EXPECT_THAT(works.dropped(), ElementsAre("waits"));
  EXPECT_EQ(works.last_error().code(), Code::kUnavailable);
  EXPECT_EQ(DetailsOf(works.last_error()).reason, v1::ERROR_REASON_DRAINING);
  EXPECT_EQ(pool->Submit(works.Job("peer", "new")).code(), Code::kUnavailable);
  EXPECT_EQ(blocker.seen().code(), Code::kUnavailable);
}

TEST(WorkPoolTest, EndsWithWorkThatWaits) {
  Works works;
  auto pool = PoolOf(1);
  auto blocker = std::make_unique<Blocker>(*pool, WorkCost::kLong);
  ASSERT_TRUE(pool->Submit(works.Job("peer", "waits")).ok());
  pool->Abort();
  blocker.reset();
  pool.reset();
  EXPECT_THAT(works.dropped(), ElementsAre("waits"));
}

TEST(WorkPoolTest, GoesOnWithTheThreadsThatStart) {
  Works works;
  int n_left = 1;
  const auto pool = WorkPool::Start(
      {.n_threads = 4, .start = [&n_left](std::function<void()> work) {
         return n_left-- > 0 ? WorkPool::StartThread(std::move(work)) : nullptr;
       }});
  ASSERT_TRUE(pool.ok());
  EXPECT_EQ((*pool)->n_threads(), 1);
  ASSERT_TRUE((*pool)->Submit(works.Job("peer", "long")).ok());
  ASSERT_TRUE((*pool)->Await(0, 0, kTooLong));
  EXPECT_THAT(works.started(), ElementsAre("long"));
}

TEST(WorkPoolTest, SaysThatNoThreadStarts) {
  const auto pool =
      WorkPool::Start({.n_threads = 2,
                       .start = [](const std::function<void()>&)
                           -> std::unique_ptr<Background> { return nullptr; }});
  EXPECT_EQ(pool.status().code(), Code::kResourceExhausted);
  EXPECT_THAT(pool.status().message(), HasSubstr("ulimit -u"));
}

TEST(WorkPoolTest, HasAFewThreads) {
  EXPECT_GE((*WorkPool::Start())->n_threads(), 2);
  EXPECT_EQ(PoolOf(WorkPool::kMaxThreads)->n_threads(), WorkPool::kMaxThreads);
  for (const int n : {-1, WorkPool::kMaxThreads + 1}) {
    EXPECT_EQ(WorkPool::Start({.n_threads = n, .start = WorkPool::StartThread})
                  .status()
                  .code(),
              Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace plimsoll::services
