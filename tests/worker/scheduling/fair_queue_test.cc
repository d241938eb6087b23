// Peers and tenants have equal shares, priorities are weights, nobody starves.
#include "worker/scheduling/fair_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::worker {
namespace {

// The next one, which costs `n_tokens` and ends at once.
std::optional<int64_t> Serve(FairQueue& queue, int64_t n_tokens) {
  const std::optional<int64_t> id = queue.Pop(n_tokens);
  if (id) queue.Remove(*id);
  return id;
}

TEST(FairQueueTest, OneTenantIsServedInOrder) {
  FairQueue queue;
  for (int64_t id = 1; id <= 5; ++id) queue.Push(id, {});
  EXPECT_EQ(queue.size(), 5);
  for (int64_t id = 1; id <= 5; ++id) EXPECT_EQ(Serve(queue, 1'000), id);
  EXPECT_EQ(Serve(queue, 1), std::nullopt);
  EXPECT_EQ(queue.size(), 0);
}

TEST(FairQueueTest, AFloodOfShortOrLongOnesHoldsUpNobody) {
  for (const int64_t flood_tokens : {1, 10, 1'000, 5'000}) {
    FairQueue queue;
    for (int64_t id = 1; id <= 60; ++id) queue.Push(id, {"a"});
    EXPECT_EQ(queue.Pop(flood_tokens), 1);
    queue.Push(100, {"b"});
    EXPECT_EQ(queue.Pop(flood_tokens), 100) << flood_tokens;
  }
}

TEST(FairQueueTest, ATenantsPriorityDoesNotBeatAnotherTenant) {
  FairQueue queue;
  for (int64_t id = 1; id <= 60; ++id) queue.Push(id, {"a", Priority::kHigh});
  EXPECT_EQ(queue.Pop(10), 1);
  queue.Push(100, {"b", Priority::kLow});
  EXPECT_EQ(queue.Pop(10), 100);
}

TEST(FairQueueTest, AHighPriorityIsAheadOfItsTenantsOtherRequests) {
  FairQueue queue;
  for (int64_t id = 1; id <= 60; ++id) queue.Push(id, {"a", Priority::kLow});
  EXPECT_EQ(queue.Pop(10), 1);
  queue.Push(100, {"a", Priority::kHigh});
  EXPECT_EQ(queue.Pop(10), 100);
}

TEST(FairQueueTest, ManyNamesOfOnePeerAreServedAsOne) {
  FairQueue queue;
  int64_t next_id = 1;
  const auto push_name = [&] {
    queue.Push(next_id, {std::to_string(next_id), Priority::kHigh, "flood"});
    ++next_id;
  };
  for (int i = 0; i < 1'000; ++i) push_name();
  for (int64_t id = 2'000; id < 2'100; ++id) {
    queue.Push(id, {"", Priority::kLow, "other"});
  }
  int64_t n_other = 0;
  for (int i = 0; i < 100; ++i) {
    n_other += *Serve(queue, 100) >= 2'000 ? 1 : 0;
    push_name();
  }
  EXPECT_EQ(n_other, 50);
}

TEST(FairQueueTest, NewNamesDoNotStarveATenantOfTheirPeer) {
  FairQueue queue;
  queue.Push(0, {"long"});
  queue.Push(1, {"other"});
  auto* party = queue.Push(2, {"long"});
  EXPECT_EQ(queue.Pop(10), 0);
  queue.Remove(0);
  FairQueue::Charge(party, 1'000'000);  // a debt, but not for ever
  int64_t n_before = 0;
  for (int64_t id = 10; queue.Peek() != 2; ++id, ++n_before) {
    queue.Push(id, {std::to_string(id)});
    ASSERT_TRUE(Serve(queue, 1).has_value());
    ASSERT_LT(id, 1'000'000);
  }
  EXPECT_GT(n_before, 100);
}

TEST(FairQueueTest, WhatIsGeneratedCounts) {
  FairQueue queue;
  auto* talks = queue.Push(1, {"talks"});
  queue.Push(2, {"talks"});
  queue.Push(3, {"waits"});
  queue.Push(4, {"waits"});
  EXPECT_EQ(queue.Pop(100), 1);
  EXPECT_EQ(queue.Pop(150), 3) << "it has no slot, the other has one";
  EXPECT_EQ(queue.Peek(), 2);
  FairQueue::Charge(talks, 51);
  EXPECT_EQ(queue.Peek(), 4);
}

TEST(FairQueueTest, WhatNobodyElseWantedCostsNothing) {
  FairQueue queue;
  auto* alone = queue.Push(1, {"alone"});
  EXPECT_EQ(queue.Pop(100'000), 1);
  FairQueue::Charge(alone, 100'000);
  queue.Push(2, {"new"});
  queue.Push(3, {"new"});
  queue.Push(4, {"alone"});
  EXPECT_EQ(queue.Pop(100), 2);
  EXPECT_EQ(queue.Pop(100), 4);
  EXPECT_EQ(queue.Pop(100), 3);
}

TEST(FairQueueTest, WhatIsRemovedIsNotServed) {
  FairQueue queue;
  queue.Push(1, {"a"});
  queue.Push(2, {"a"});
  queue.Push(3, {"b"});
  queue.Remove(1);
  queue.Remove(3);
  queue.Remove(99);
  EXPECT_EQ(queue.size(), 1);
  EXPECT_EQ(Serve(queue, 1), 2);
  EXPECT_EQ(Serve(queue, 1), std::nullopt);
}

TEST(FairQueueTest, WhatIsAdmittedGoesOnFirstAndCountsInNoLimit) {
  FairQueue queue;
  for (int64_t id = 1; id <= 3; ++id) queue.Push(id, {"a"});
  queue.Push(4, {"a"}, Waits::kAdmitted);
  EXPECT_EQ(queue.size(), 4);
  EXPECT_EQ(queue.limited(), 3);
  EXPECT_EQ(queue.Pop(1), 4);
  queue.Stop(4);
  queue.PushAgain(4, Place::kLast);
  EXPECT_EQ(queue.limited(), 3);
  for (const int64_t id : {1, 2, 3, 4}) EXPECT_EQ(queue.Pop(1), id);
}

TEST(FairQueueTest, TheNewestOfTheGreediestGivesWay) {
  FairQueue queue;
  EXPECT_EQ(queue.GivesWay({"a"}), std::nullopt);
  queue.Push(1, {"a", Priority::kLow});
  queue.Push(2, {"a", Priority::kHigh});
  queue.Push(3, {"a", Priority::kLow});
  queue.Push(4, {"a", Priority::kLow}, Waits::kToTheEnd);
  queue.Push(5, {"b"});
  EXPECT_EQ(queue.GivesWay({"a", Priority::kHigh}), std::nullopt);
  EXPECT_EQ(queue.GivesWay({"b"}), 3);
  EXPECT_EQ(queue.GivesWay({"c"}), 3);
  queue.Push(6, {"b"});
  queue.Push(7, {"b"});
  EXPECT_EQ(queue.GivesWay({"b"}), std::nullopt) << "it would have as many";
  // A name more is no peer more.
  EXPECT_EQ(queue.GivesWay({"d", Priority::kNormal, "elsewhere"}), 3);
  queue.Push(8, {"c", Priority::kNormal, "elsewhere"});
  queue.Push(9, {"c", Priority::kNormal, "elsewhere"});
  EXPECT_EQ(queue.GivesWay({"d", Priority::kNormal, "elsewhere"}), 3);
  for (int64_t id = 10; id < 15; ++id) {
    queue.Push(id, {"c", Priority::kNormal, "elsewhere"});
  }
  EXPECT_EQ(queue.GivesWay({"d", Priority::kNormal, "elsewhere"}), 14);
}

TEST(FairQueueTest, WhereTheGreediestGivesWayToNobodyTheNextOneDoes) {
  FairQueue queue;
  for (int64_t id = 1; id <= 4; ++id) queue.Push(id, {"a"}, Waits::kToTheEnd);
  EXPECT_EQ(queue.GivesWay({"c"}), std::nullopt);
  for (int64_t id = 5; id <= 7; ++id) queue.Push(id, {"b"});
  EXPECT_EQ(queue.GivesWay({"c"}), 7);
  EXPECT_EQ(queue.GivesWay({"b"}), std::nullopt);
  // So it is with peers, and with the tenants of one.
  const Claim elsewhere = {"c", Priority::kNormal, "elsewhere"};
  EXPECT_EQ(queue.GivesWay(elsewhere), 7);
  const Claim greedy = {"d", Priority::kNormal, "greedy"};
  for (int64_t id = 10; id < 20; ++id) {
    queue.Push(id, greedy, Waits::kToTheEnd);
  }
  EXPECT_EQ(queue.GivesWay(elsewhere), 7);
  EXPECT_EQ(queue.GivesWay({"c"}), 7) << "its own peer has a greedy tenant";
  for (const int64_t id : {6, 7}) queue.Remove(id);
  EXPECT_EQ(queue.GivesWay({"c"}), std::nullopt);
}

TEST(FairQueueTest, WhoHoldsMoreIsAskedOfPeersThenOfTenants) {
  FairQueue queue;
  const auto* a = queue.Run(1, {"a"});
  const auto* b = queue.Run(2, {"b"});
  const auto* c = queue.Push(3, {"c"});
  EXPECT_FALSE(FairQueue::HoldsMore(*a, *a)) << "the same tenant";
  EXPECT_FALSE(FairQueue::HoldsMore(*a, *b)) << "as many";
  EXPECT_TRUE(FairQueue::HoldsMore(*a, *c));
  const Claim elsewhere = {"a", Priority::kNormal, "elsewhere"};
  const auto* other = queue.Push(4, elsewhere);
  EXPECT_TRUE(FairQueue::HoldsMore(*a, *other));
  queue.Run(5, elsewhere);
  EXPECT_FALSE(FairQueue::HoldsMore(*a, *other)) << "two and one";
  queue.Run(6, {"b"});
  EXPECT_TRUE(FairQueue::HoldsMore(*a, *other));
  EXPECT_TRUE(FairQueue::RunsMore(*a, *other));
  EXPECT_TRUE(FairQueue::RunsMore(*b, *a));
  std::vector<int64_t> next;
  queue.ForNextOfPeers([&next](int64_t id) {
    next.push_back(id);
    return false;
  });
  EXPECT_EQ(next, std::vector<int64_t>({3, 4}));
}

// Priorities that always have something waiting, of random sizes.
TEST(FairQueueTest, TokensAreSharedByTenantAndThenByWeight) {
  std::mt19937 random(3);
  const std::vector<Claim> claims = {{"a", Priority::kLow},
                                     {"a", Priority::kNormal},
                                     {"b", Priority::kNormal},
                                     {"b", Priority::kHigh}};
  FairQueue queue;
  std::map<int64_t, size_t> waiting;
  int64_t next_id = 0;
  const auto push = [&](size_t flow) {
    queue.Push(next_id, claims[flow]);
    waiting[next_id++] = flow;
  };
  for (size_t flow = 0; flow < claims.size(); ++flow) {
    push(flow);
    push(flow);
  }
  std::vector<double> served(claims.size());
  double total = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto n_tokens = static_cast<int64_t>(16 + random() % 4'000);
    const auto id = Serve(queue, n_tokens);
    ASSERT_TRUE(id.has_value());
    const size_t flow = waiting.at(*id);
    waiting.erase(*id);
    served[flow] += static_cast<double>(n_tokens);
    total += static_cast<double>(n_tokens);
    push(flow);
  }
  EXPECT_NEAR(served[0] / total, 0.5 / 5, 0.01);
  EXPECT_NEAR(served[1] / total, 0.5 * 4 / 5, 0.01);
  EXPECT_NEAR(served[2] / total, 0.5 / 5, 0.01);
  EXPECT_NEAR(served[3] / total, 0.5 * 4 / 5, 0.01);
}

TEST(FairQueueTest, RandomTrafficLosesNobodyAndKeepsEveryOrder) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    const auto name = [&random] {
      return std::string(1, static_cast<char>('a' + random() % 3));
    };
    FairQueue queue;
    std::map<std::string, std::vector<int64_t>> waiting;
    int64_t n_waiting = 0;
    for (int64_t id = 0; id < 400; ++id) {
      const Claim claim = {name(), static_cast<Priority>(random() % 3), name()};
      const std::string flow = claim.peer + claim.tenant +
                               std::to_string(static_cast<int>(claim.priority));
      queue.Push(id, claim);
      waiting[flow].push_back(id);
      ++n_waiting;
      while (n_waiting > 0 && random() % 2 == 0) {
        const auto popped =
            Serve(queue, static_cast<int64_t>(1 + random() % 9'000));
        ASSERT_TRUE(popped.has_value());
        bool is_first = false;
        for (auto& [of, ids] : waiting) {
          if (ids.empty() || ids.front() != *popped) continue;
          ids.erase(ids.begin());
          is_first = true;
        }
        ASSERT_TRUE(is_first) << "seed " << seed;
        ASSERT_EQ(queue.size(), --n_waiting);
        ASSERT_EQ(queue.limited(), n_waiting);
      }
    }
    while (n_waiting-- > 0) ASSERT_TRUE(Serve(queue, 1).has_value());
    ASSERT_EQ(Serve(queue, 1), std::nullopt);
  }
}

}  // namespace
}  // namespace plimsoll::worker
