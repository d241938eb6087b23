// How many requests may be without a slot, and who gives way to a newcomer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "tests/worker/scheduling/next_step.h"
#include "worker/scheduling/scheduler.h"

namespace plimsoll::worker {
namespace {

TEST(SchedulerLimitsTest, TheQueueTakesItsLimitAndRefusesOneMore) {
  Scheduler scheduler(1, 8, 3);
  for (int64_t id = 1; id <= 3; ++id) EXPECT_TRUE(scheduler.Add(id, 1).ok());
  const absl::Status refused = scheduler.Add(4, 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("3"));
  Next(scheduler);  // one leaves the queue for the slot
  EXPECT_TRUE(scheduler.Add(4, 1).ok());
  EXPECT_FALSE(scheduler.Add(5, 1).ok());
}

// Adds requests of `claim` from id `first` on whose readers read nothing, and
// returns how many are taken. Each loses the only slot to a request of another
// peer, which then ends.
int64_t AddUnread(Scheduler& scheduler, int64_t first, const Claim& claim) {
  for (int64_t n = 0; n < 100; ++n) {
    const int64_t id = first + n;
    const int64_t other = id + 1'000'000;
    if (!scheduler.Add(id, 1, claim).ok()) return n;
    Next(scheduler);
    scheduler.Park(id);
    EXPECT_TRUE(scheduler.Add(other, 1, {.tenant = "reads"}).ok());
    for (int64_t step = 0; step <= Scheduler::kMostParked; ++step) {
      Next(scheduler);
    }
    EXPECT_EQ(scheduler.WhoseSliceEnds([](int64_t) { return true; }), id);
    scheduler.Yield(id, 1);
    Next(scheduler);
    EXPECT_TRUE(scheduler.SlotOf(other).has_value());
    scheduler.Remove(other);
  }
  return -1;
}

TEST(SchedulerLimitsTest, StreamsThatNobodyReadsDoNotPileUp) {
  constexpr int64_t kMaxWaiting = 3;
  Scheduler scheduler(1, 8, kMaxWaiting);
  // Each tenant of the peer has so many, until the peer has its most.
  for (int64_t i = 0; i < Scheduler::kMostQueuesOfPeer; ++i) {
    EXPECT_EQ(AddUnread(scheduler, 100 * (i + 1),
                        {.tenant = std::to_string(i), .peer = "p"}),
              kMaxWaiting);
  }
  EXPECT_EQ(AddUnread(scheduler, 9'000, {.tenant = "last", .peer = "p"}), 0);
  EXPECT_TRUE(scheduler.Add(9'999, 1, {.tenant = "last", .peer = "q"}).ok());
}

TEST(SchedulerLimitsTest, NobodyGivesWayToARequestThatIsRefused) {
  constexpr int64_t kMaxWaiting = 3;
  Scheduler scheduler(1, 8, kMaxWaiting);
  const Claim unread = {.tenant = "unread", .peer = "p"};
  EXPECT_EQ(AddUnread(scheduler, 100, unread), kMaxWaiting);
  // Another peer fills the queue.
  ASSERT_TRUE(scheduler.Add(1, 1, {.tenant = "t", .peer = "q"}).ok());
  Next(scheduler);
  for (int64_t id = 2; id <= 1 + kMaxWaiting; ++id) {
    ASSERT_TRUE(scheduler.Add(id, 1, {.tenant = "t", .peer = "q"}).ok());
  }
  EXPECT_EQ(scheduler.GivesWayTo(unread), std::nullopt);
  EXPECT_FALSE(scheduler.Add(200, 1, unread).ok());
  EXPECT_EQ(scheduler.GivesWayTo({.tenant = "other", .peer = "p"}),
            1 + kMaxWaiting);
}

TEST(SchedulerLimitsTest, WithinAPeerAtItsLimitATenantGivesWayToAnother) {
  constexpr int64_t kMaxWaiting = 4;
  Scheduler scheduler(1, 8, kMaxWaiting);
  // The peer has one less than its most, and then fills the queue.
  for (int64_t i = 0; i < Scheduler::kMostQueuesOfPeer - 1; ++i) {
    EXPECT_EQ(AddUnread(scheduler, 100 * (i + 1),
                        {.tenant = std::to_string(i), .peer = "p"}),
              kMaxWaiting);
  }
  ASSERT_TRUE(scheduler.Add(1, 1, {.tenant = "t", .peer = "q"}).ok());
  Next(scheduler);
  for (int64_t id = 2; id <= 1 + kMaxWaiting; ++id) {
    ASSERT_TRUE(scheduler.Add(id, 1, {.tenant = "greedy", .peer = "p"}).ok());
  }
  const Claim other = {.tenant = "other", .peer = "p"};
  const std::optional<int64_t> leaver = scheduler.GivesWayTo(other);
  ASSERT_EQ(leaver, 1 + kMaxWaiting);
  scheduler.Remove(*leaver);
  EXPECT_TRUE(scheduler.Add(99, 1, other).ok());
}

}  // namespace
}  // namespace plimsoll::worker
