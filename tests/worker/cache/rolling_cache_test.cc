// A rolling cache against its model, in many settings.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/worker/cache/rolling_cache_model.h"

namespace plimsoll::worker {
namespace {

using testing::RollingCacheModel;
using testing::RollSettings;

TEST(RollingCacheTest, AttendsExactlyThePrefixAndTheRecentTokens) {
  std::mt19937 random(7);
  for (const RollSettings& settings :
       {RollSettings{256, 16, 4, 192}, RollSettings{256, 16, 0, 192},
        RollSettings{256, 60, 64, 100}, RollSettings{300, 100, 5, 1},
        RollSettings{300, 16, 65, 300}, RollSettings{640, 512, 4, 480},
        RollSettings{129, 16, 1, 65}, RollSettings{512, 512, 7, 256}}) {
    SCOPED_TRACE(settings.n_ctx);
    RollingCacheModel rolling(settings);
    ASSERT_EQ(rolling.roll().method, RollMethod::kShift);
    while (rolling.length() < 6 * settings.n_ctx) {
      ASSERT_EQ(rolling.Step(1 + static_cast<int64_t>(random() % 200)), "");
    }
  }
}

TEST(RollingCacheTest, WholeTurnsLeaveWhereverTheyBegin) {
  std::mt19937 random(8);
  for (const RollSettings& settings :
       {RollSettings{256, 16, 4, 192}, RollSettings{300, 100, 5, 1},
        RollSettings{640, 512, 4, 480}, RollSettings{512, 512, 7, 256},
        RollSettings{1'000, 60, 64, 750}}) {
    SCOPED_TRACE(settings.n_ctx);
    RollingCacheModel rolling(settings);
    for (int turn = 0; turn < 80; ++turn) {
      const auto n_tokens = 1 + static_cast<int64_t>(random() % 150);
      const int64_t end = rolling.length() + n_tokens;
      rolling.BeginTurn();
      for (int chunk = 0; chunk < 100 && rolling.length() < end; ++chunk) {
        ASSERT_EQ(
            rolling.Step(std::min(end - rolling.length(),
                                  1 + static_cast<int64_t>(random() % 90))),
            "");
      }
    }
    EXPECT_GT(rolling.n_shifted(), 10);
  }
}

TEST(RollingCacheTest, WhatIsAttendedDoesNotDependOnTheChunks) {
  for (const int64_t n_rows : {1, 7, 64, 512}) {
    SCOPED_TRACE(n_rows);
    RollingCacheModel rolling({256, 16, 4, 192});
    while (rolling.length() < 2'000) {
      ASSERT_EQ(rolling.Step(n_rows), "");
    }
  }
}

TEST(RollingCacheTest, NeverTakesMorePagesThanASlotHas) {
  RollingCacheModel rolling({256, 16, 4, 192});
  // The other slot has all of its own.
  ASSERT_TRUE(rolling.cache().Extend(0, 256).ok());
  while (rolling.length() < 3'000) {
    ASSERT_EQ(rolling.Step(33), "");
  }
  rolling.cache().Clear(1);
  EXPECT_EQ(rolling.cache().free_pages(), 4);
  EXPECT_EQ(rolling.cache().Evicted(1), 0);
  EXPECT_EQ(rolling.cache().LiveBegin(1), 0);
}

TEST(RollingCacheTest, TokensMayLeaveInTheMiddleOfAPage) {
  RollingCacheModel rolling({256, 16, 4, 192});
  KvCache& cache = rolling.cache();
  ASSERT_TRUE(cache.Extend(1, 4 + 150).ok());
  cache.Evict(1, 70);  // a page, and 6 tokens of the next
  ASSERT_EQ(cache.Pages(1).size(), 3u);
  EXPECT_TRUE(cache.Pages(1)[0].is_prefix);
  EXPECT_EQ(cache.Pages(1)[1].first_position, 4 + 64);
  EXPECT_EQ(cache.Pages(1)[1].live_begin, 6);
  EXPECT_EQ(cache.Pages(1)[1].live_end, 64);
  EXPECT_EQ(cache.LiveBegin(1), 74);
  cache.Evict(1, 80);  // all that is left
  EXPECT_EQ(cache.Live(1), 4);
  ASSERT_TRUE(cache.Extend(1, 4 + 200).ok());
  EXPECT_EQ(cache.Pages(1).back().first_position, 4 + 192);
  EXPECT_EQ(cache.Pages(1).back().live_end, 8);
}

TEST(RollingCacheTest, ABillionTokensLaterEverythingIsInItsPlace) {
  RollingCacheModel rolling({256, 16, 4, 192});
  KvCache& cache = rolling.cache();
  const int64_t far = 1'000'000'000;
  while (cache.Length(1) < far) {
    const int64_t room = rolling.roll().capacity - cache.Live(1);
    ASSERT_TRUE(cache.Extend(1, cache.Length(1) + room).ok());
    cache.Evict(1, rolling.roll().evict_tokens);
  }
  const auto pages = cache.Pages(1);
  EXPECT_EQ(pages[0].first_position, 0);
  EXPECT_EQ(pages[0].live_end, 4);
  EXPECT_EQ(pages[1].first_position, cache.LiveBegin(1));
  EXPECT_EQ(cache.LiveBegin(1), 4 + cache.Evicted(1));
  EXPECT_EQ(cache.Live(1),
            rolling.roll().capacity - rolling.roll().evict_tokens);
}

}  // namespace
}  // namespace plimsoll::worker
