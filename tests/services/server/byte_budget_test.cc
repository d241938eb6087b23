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

TEST(ByteBudgetTest, WhatIsTakenComesBack) {
  ByteBudget budget(8 * kMebibyte);
  {
    auto one = budget.Take(kMebibyte);
    auto two = budget.Take(3 * kMebibyte);
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
  const auto held = budget.Take(kMebibyte);
  ASSERT_TRUE(held.ok());
  EXPECT_TRUE(budget.Take(kMebibyte).ok());
  const auto other = budget.Take(kMebibyte / 2);
  const auto refused = budget.Take(kMebibyte / 2 + 1);
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
  const auto large = budget.Take(12 * kMebibyte);
  ASSERT_TRUE(large.ok());
  EXPECT_FALSE(budget.Take(ByteBudget::kMaxSmallBytes + 1).ok());
  std::vector<ByteBudget::Share> small;
  for (int i = 0; i < 4; ++i) {
    auto share = budget.Take(ByteBudget::kMaxSmallBytes);
    ASSERT_TRUE(share.ok()) << share.status();
    small.push_back(*std::move(share));
  }
  EXPECT_FALSE(budget.Take(1).ok());
  EXPECT_TRUE(budget.Take(0).ok());
}

TEST(ByteBudgetTest, WhatNoCallMayHaveIsNotToBeTriedAgain) {
  ByteBudget budget(16 * kMebibyte);
  EXPECT_TRUE(budget.Take(12 * kMebibyte).ok());
  const auto refused = budget.Take(12 * kMebibyte + 1);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_FALSE(DetailsOf(refused.status()).retry_after.has_value());
  // A budget of small calls alone.
  ByteBudget tiny(1'000);
  EXPECT_TRUE(tiny.Take(1'000).ok());
  EXPECT_FALSE(tiny.Take(1'001).ok());
}

TEST(ByteBudgetTest, AShareGrowsWhileThereAreBytes) {
  ByteBudget budget(4 * kMebibyte);
  auto one = budget.Take(kMebibyte);
  auto two = budget.Take(kMebibyte);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_TRUE(one->Grow(2 * kMebibyte).ok());
  EXPECT_TRUE(one->Grow(kMebibyte).ok());  // it has more already
  EXPECT_EQ(one->bytes(), 2 * kMebibyte);
  const absl::Status refused = one->Grow(2 * kMebibyte + 1);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(one->bytes(), 2 * kMebibyte);
  EXPECT_EQ(Held(budget), 3 * kMebibyte);
  two->Shrink(0);
  EXPECT_TRUE(one->Grow(3 * kMebibyte).ok());
  EXPECT_FALSE(one->Grow(3 * kMebibyte + 1).ok());
  EXPECT_EQ(Held(budget), 3 * kMebibyte);
  EXPECT_TRUE(ByteBudget::Share().Grow(1).ok());  // of no budget
}

TEST(ByteBudgetTest, ThreadsNeverHoldMoreThanItHas) {
  ByteBudget budget(64 << 10);
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&budget, i] {
      for (int64_t n = 0; n < 2'000; ++n) {
        auto share = budget.Take((i + 1) * 8'000 + n);
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
