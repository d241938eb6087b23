// Calls never hold more bytes together than the budget has.
#include "services/server/byte_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMebibyte = 1 << 20;

int64_t Held(const ByteBudget& budget) { return budget.traffic().held_bytes; }

// Takes small shares until `peer` gets no more.
std::vector<ByteBudget::Share> TakeSmall(ByteBudget& budget, const char* peer) {
  std::vector<ByteBudget::Share> shares;
  while (true) {
    auto share = budget.Take(peer, ByteBudget::kMaxSmallBytes);
    if (!share.ok()) return shares;
    shares.push_back(*std::move(share));
  }
}

TEST(ByteBudgetTest, WhatIsTakenComesBack) {
  ByteBudget budget(8 * kMebibyte);
  {
    auto one = budget.Take("a", kMebibyte);
    auto two = budget.Take("a", 3 * kMebibyte);
    ASSERT_TRUE(one.ok() && two.ok());
    EXPECT_EQ(Held(budget), 4 * kMebibyte);
    // A share that moves is given back once.
    const ByteBudget::Share moved = *std::move(one);
    ByteBudget::Share assigned;
    assigned = *std::move(two);
    EXPECT_EQ(moved.bytes(), kMebibyte);
    EXPECT_EQ(Held(budget), 4 * kMebibyte);
    assigned.Shrink(2 * kMebibyte);
    assigned.Shrink(5 * kMebibyte);
    EXPECT_EQ(assigned.bytes(), 2 * kMebibyte);
    EXPECT_EQ(Held(budget), 3 * kMebibyte);
  }
  EXPECT_EQ(Held(budget), 0);
  EXPECT_EQ(budget.traffic().n_shares, 2);
}

TEST(ByteBudgetTest, OneByteMoreThanIsLeftIsRefusedWithTheNumbers) {
  ByteBudget budget(2 * kMebibyte);
  const auto held = budget.Take("a", kMebibyte);
  ASSERT_TRUE(held.ok());
  EXPECT_TRUE(budget.Take("b", kMebibyte).ok());
  const auto other = budget.Take("b", kMebibyte / 2);
  const auto refused = budget.Take("c", kMebibyte / 2 + 1);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("524289"));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("524288"));
  const ErrorDetails details = DetailsOf(refused.status());
  EXPECT_EQ(details.reason, v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED);
  EXPECT_EQ(details.metadata.at("wanted_bytes"), "524289");
  EXPECT_EQ(details.metadata.at("available_bytes"), "524288");
  EXPECT_EQ(details.retry_after, ByteBudget::kRetryDelay);
  EXPECT_EQ(Held(budget), kMebibyte + kMebibyte / 2);
}

TEST(ByteBudgetTest, LargeCallsLeaveAQuarterToSmallOnes) {
  ByteBudget budget(16 * kMebibyte);
  EXPECT_EQ(budget.max_share_bytes(), 12 * kMebibyte);
  const auto large = budget.Take("a", 12 * kMebibyte);
  ASSERT_TRUE(large.ok());
  EXPECT_FALSE(budget.Take("a", ByteBudget::kMaxSmallBytes + 1).ok());
  // Its own small ones, too: up to an eighth.
  EXPECT_EQ(TakeSmall(budget, "a").size(), 2u);
  EXPECT_TRUE(budget.Take("a", 0).ok());
}

TEST(ByteBudgetTest, NoPeerFillsIt) {
  ByteBudget budget(64 * kMebibyte);
  const auto large = budget.Take("a", 48 * kMebibyte);
  ASSERT_TRUE(large.ok());
  const auto small = TakeSmall(budget, "a");
  EXPECT_EQ(small.size(), 8u);
  EXPECT_EQ(Held(budget), 56 * kMebibyte);
  // The next one has most of what is left, and the one after it.
  EXPECT_FALSE(budget.Take("b", 6 * kMebibyte + 1).ok());
  const auto second = budget.Take("b", 6 * kMebibyte);
  EXPECT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(budget.Take("c", kMebibyte + kMebibyte / 2).ok());
  const auto third = budget.Take("c", kMebibyte);
  const auto last = budget.Take("d", kMebibyte);
  EXPECT_TRUE(third.ok() && last.ok());
  EXPECT_FALSE(budget.Take("e", 1).ok());
}

TEST(ByteBudgetTest, APeerThatHoldsNothingIsForgotten) {
  ByteBudget budget(16 * kMebibyte);
  for (int i = 0; i < 3; ++i) {
    const auto all = TakeSmall(budget, "a");
    EXPECT_EQ(all.size(), 14u);
  }
  EXPECT_EQ(Held(budget), 0);
}

TEST(ByteBudgetTest, ACallLivesUntilItsShareEnds) {
  ByteBudget budget(16 * kMebibyte);
  {
    ByteBudget::Share call = budget.Enter("a");
    EXPECT_EQ(budget.traffic().n_live, 1);
    // A message that waits is no work.
    EXPECT_TRUE(call.Resize(kMebibyte).ok());
    EXPECT_EQ(budget.traffic().n_shares, 0);
    EXPECT_TRUE(call.Resize(1'000).ok());
    EXPECT_EQ(Held(budget), 1'000);
    EXPECT_FALSE(call.Resize(13 * kMebibyte).ok());
    EXPECT_EQ(call.bytes(), 1'000);
    EXPECT_TRUE(call.Grow(500).ok());
    EXPECT_TRUE(call.Grow(2'000).ok());
    EXPECT_EQ(budget.traffic().n_shares, 1);
    call.Shrink(0);
    EXPECT_EQ(budget.traffic().n_live, 1);
  }
  EXPECT_EQ(budget.traffic().n_live, 0);
}

TEST(ByteBudgetTest, WhatNoCallMayHaveIsNotToBeTriedAgain) {
  ByteBudget budget(16 * kMebibyte);
  EXPECT_TRUE(budget.Take("a", 12 * kMebibyte).ok());
  const auto refused = budget.Take("a", 12 * kMebibyte + 1);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_FALSE(DetailsOf(refused.status()).retry_after.has_value());
  // A budget of small calls alone.
  ByteBudget tiny(1'000);
  EXPECT_TRUE(tiny.Take("a", 1'000).ok());
  EXPECT_FALSE(tiny.Take("a", 1'001).ok());
}

TEST(ByteBudgetTest, AShareGrowsWhileThereAreBytes) {
  ByteBudget budget(4 * kMebibyte);
  auto one = budget.Take("a", kMebibyte);
  auto two = budget.Take("b", kMebibyte);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_TRUE(one->Grow(2 * kMebibyte).ok());
  EXPECT_TRUE(one->Grow(kMebibyte).ok());  // it has more already
  EXPECT_EQ(one->bytes(), 2 * kMebibyte);
  const absl::Status refused = one->Grow(9 * kMebibyte / 4 + 1);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(one->bytes(), 2 * kMebibyte);
  EXPECT_EQ(Held(budget), 3 * kMebibyte);
  two->Shrink(0);
  EXPECT_TRUE(one->Grow(3 * kMebibyte).ok());
  EXPECT_FALSE(one->Grow(3 * kMebibyte + 1).ok());
  EXPECT_EQ(Held(budget), 3 * kMebibyte);
  EXPECT_TRUE(ByteBudget::Share().Grow(1).ok());  // this share has no budget
}

TEST(ByteBudgetTest, ThreadsNeverHoldMoreThanItHas) {
  ByteBudget budget(64 << 10);
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&budget, i] {
      for (int64_t n = 0; n < 2'000; ++n) {
        auto share = budget.Take(std::string(1, static_cast<char>('a' + i % 2)),
                                 (i + 1) * 8'000 + n);
        EXPECT_LE(Held(budget), budget.limit_bytes());
        if (share.ok()) share->Grow(2 * share->bytes()).IgnoreError();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Held(budget), 0);
}

}  // namespace
}  // namespace plimsoll::services
