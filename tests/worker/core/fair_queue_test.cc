// Tenants take turns by tokens, priorities are weights, nobody starves.
#include "worker/fair_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace plimsoll::worker {
namespace {

TEST(FairQueueTest, OneTenantIsServedInOrder) {
  FairQueue queue;
  for (int64_t id = 1; id <= 5; ++id) queue.Push(id, id * 1'000, {});
  EXPECT_EQ(queue.size(), 5);
  for (int64_t id = 1; id <= 5; ++id) EXPECT_EQ(queue.Pop(), id);
  EXPECT_EQ(queue.Pop(), std::nullopt);
  EXPECT_EQ(queue.size(), 0);
}

TEST(FairQueueTest, AFloodHoldsUpAnotherTenantByATurnAtMost) {
  for (const int64_t flood_tokens : {10, 1'000, 5'000}) {
    FairQueue queue;
    for (int64_t id = 1; id <= 60; ++id) queue.Push(id, flood_tokens, {"a"});
    EXPECT_EQ(queue.Pop(), 1);
    queue.Push(100, 1'000, {"b"});
    int64_t before = 0;  // tokens that go first
    while (queue.Pop() != 100) before += flood_tokens;
    EXPECT_LE(before, FairQueue::TokensOfTurn(Priority::kNormal) + flood_tokens)
        << flood_tokens;
  }
}

TEST(FairQueueTest, WhatIsRemovedIsNotServed) {
  FairQueue queue;
  queue.Push(1, 10, {"a"});
  queue.Push(2, 10, {"a"});
  queue.Push(3, 10, {"b"});
  queue.Remove(1);
  queue.Remove(3);
  queue.Remove(99);
  EXPECT_EQ(queue.size(), 1);
  EXPECT_EQ(queue.Pop(), 2);
  EXPECT_EQ(queue.Pop(), std::nullopt);
}

// Flows that always have something waiting, of random sizes.
TEST(FairQueueTest, TokensAreSharedByWeight) {
  std::mt19937 random(3);
  const std::vector<Claim> claims = {{"a", Priority::kLow},
                                     {"a", Priority::kNormal},
                                     {"b", Priority::kNormal},
                                     {"b", Priority::kHigh}};
  FairQueue queue;
  std::map<int64_t, std::pair<size_t, int64_t>> waiting;  // flow and tokens
  int64_t next_id = 0;
  const auto push = [&](size_t flow) {
    const auto n_tokens = static_cast<int64_t>(1 + random() % 4'000);
    queue.Push(next_id, n_tokens, claims[flow]);
    waiting[next_id++] = {flow, n_tokens};
  };
  for (size_t flow = 0; flow < claims.size(); ++flow) {
    push(flow);
    push(flow);
  }
  std::vector<double> served(claims.size());
  double total = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto id = queue.Pop();
    ASSERT_TRUE(id.has_value());
    const auto [flow, n_tokens] = waiting.at(*id);
    waiting.erase(*id);
    served[flow] += static_cast<double>(n_tokens);
    total += static_cast<double>(n_tokens);
    push(flow);
  }
  // 1 : 4 : 4 : 16.
  EXPECT_NEAR(served[0] / total, 1.0 / 25, 0.01);
  EXPECT_NEAR(served[1] / total, 4.0 / 25, 0.01);
  EXPECT_NEAR(served[2] / total, 4.0 / 25, 0.01);
  EXPECT_NEAR(served[3] / total, 16.0 / 25, 0.01);
}

TEST(FairQueueTest, RandomTrafficLosesNobodyAndKeepsEveryFlowsOrder) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    FairQueue queue;
    std::map<std::string, std::vector<int64_t>> waiting;
    int64_t n_waiting = 0;
    for (int64_t id = 0; id < 400; ++id) {
      const Claim claim = {
          std::string(1, static_cast<char>('a' + random() % 4)),
          static_cast<Priority>(random() % 3)};
      const std::string flow =
          claim.tenant + std::to_string(static_cast<int>(claim.priority));
      queue.Push(id, static_cast<int64_t>(1 + random() % 9'000), claim);
      waiting[flow].push_back(id);
      ++n_waiting;
      while (n_waiting > 0 && random() % 2 == 0) {
        const auto popped = queue.Pop();
        ASSERT_TRUE(popped.has_value());
        bool is_first = false;
        for (auto& [name, ids] : waiting) {
          if (ids.empty() || ids.front() != *popped) continue;
          ids.erase(ids.begin());
          is_first = true;
        }
        ASSERT_TRUE(is_first) << "seed " << seed;
        ASSERT_EQ(queue.size(), --n_waiting);
      }
    }
    while (n_waiting-- > 0) ASSERT_TRUE(queue.Pop().has_value());
    ASSERT_EQ(queue.Pop(), std::nullopt);
  }
}

}  // namespace
}  // namespace plimsoll::worker
