// A rolling cache against a plain list of the tokens that are alive: what every
// row may attend to, and that the bytes found there are those tokens'.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "planner/layout/kv_cache_bytes.h"
#include "worker/cache/kv_cache.h"
#include "worker/cache/roll_plan.h"

namespace plimsoll::worker {
namespace {

constexpr int64_t kFullLayer = 0;
constexpr int64_t kRingLayer = 1;

struct RollSettings {
  int64_t n_ctx;
  int64_t window;
  int64_t pin_tokens;
  int64_t evict_to;
};

// Two slots, of which one rolls; a full and a window layer.
class RollingCache {
 public:
  explicit RollingCache(const RollSettings& settings) : settings_(settings) {
    shape_.n_layers = 2;
    for (int64_t il = 0; il < 2; ++il) {
      shape_.layers.push_back({.n_kv_heads = 1,
                               .head_dim = 16,
                               .ffn_dim = 32,
                               .window = il == kRingLayer ? settings.window : 0,
                               .kv_source = il});
    }
    plan_.n_ctx = settings.n_ctx;
    plan_.options.n_slots = 2;
    plan_.options.k_type = DType::kF16;
    plan_.options.v_type = DType::kF16;
    plan_.kv =
        *planner::KvCacheBytes(shape_, {.n_ctx = settings.n_ctx, .n_slots = 2});
    pages_.resize(static_cast<size_t>(plan_.kv.full_bytes));
    rings_.resize(static_cast<size_t>(plan_.kv.window_bytes));
    cache_ = std::make_unique<KvCache>(
        shape_, plan_,
        KvRegions{.pages = {pages_.data(), plan_.kv.full_bytes},
                  .rings = {rings_.data(), plan_.kv.window_bytes}});
    RollOptions options;
    options.policy = ContextPolicy::kRoll;
    options.pin_tokens = settings.pin_tokens;
    options.evict_to = settings.evict_to;
    roll_ = *PlanRoll(shape_, plan_, options);
    cache_->Begin(kSlot, roll_.prefix_tokens);
    ring_.assign(static_cast<size_t>(settings.window), -1);
  }

  const RollPlan& roll() const { return roll_; }
  KvCache& cache() { return *cache_; }
  int64_t length() const { return cache_->Length(kSlot); }
  // The next token begins a turn, which leaves as a whole.
  void BeginTurn() {
    turns_.push_back(std::max(length(), roll_.prefix_tokens));
  }
  int64_t n_shifted() const { return n_shifted_; }

  // Evicts if the context is full, as the engine does, then computes up to
  // `n_rows` rows, checking each.
  void Step(int64_t n_rows) {
    while (length() >= roll_.FullAt(cache_->Evicted(kSlot))) Evict();
    n_rows = std::min(n_rows, roll_.FullAt(cache_->Evicted(kSlot)) - length());
    const int64_t first = length();
    ASSERT_TRUE(cache_->Extend(kSlot, first + n_rows).ok());
    for (int64_t p = first; p < first + n_rows; ++p) {
      written_[cache_->KeyOffset(kFullLayer, kSlot, p)] = p;
    }
    for (int64_t p = first; p < first + n_rows; ++p) {
      live_.push_back(p);
      ASSERT_NO_FATAL_FAILURE(CheckPages(p));
      if (cache_->IsRing(kRingLayer)) {
        ASSERT_NO_FATAL_FAILURE(CheckRing(p, first));
      }
    }
    for (int64_t p = first; p < first + n_rows; ++p) {
      ring_[static_cast<size_t>(p % settings_.window)] = p;
    }
    ASSERT_EQ(cache_->Live(kSlot), static_cast<int64_t>(live_.size()));
  }

 private:
  static constexpr int64_t kSlot = 1;

  void Evict() {
    const int64_t first_recent = roll_.prefix_tokens + cache_->Evicted(kSlot);
    std::vector<int64_t> whole_turns;
    for (const int64_t turn : turns_) {
      if (turn > first_recent) whole_turns.push_back(turn - first_recent);
    }
    const EvictionPlan leaving =
        PlanEviction(roll_, static_cast<int64_t>(live_.size()), whole_turns);
    ASSERT_GT(leaving.n_tokens, 0);
    if (leaving.method == RollMethod::kRecompute) {
      // The sequence begins anew, because the rings would keep too little.
      cache_->Clear(kSlot);
      cache_->Begin(kSlot, roll_.prefix_tokens);
      live_.clear();
      turns_.clear();
      written_.clear();
      std::fill(ring_.begin(), ring_.end(), -1);
      return;
    }
    cache_->Evict(kSlot, leaving.n_tokens);
    const auto oldest = live_.begin() + roll_.prefix_tokens;
    live_.erase(oldest, oldest + leaving.n_tokens);
    ++n_shifted_;
  }

  // What attention over pages does: see Backend::Attention.
  void CheckPages(int64_t position) {
    const kernels::PagedKv paged = cache_->Paged(kFullLayer);
    std::vector<int64_t> attended;
    bool was_recent = false;
    for (const kernels::PageEntry& page : cache_->Pages(kSlot)) {
      ASSERT_FALSE(page.is_prefix && was_recent) << "the prefix comes first";
      was_recent = !page.is_prefix;
      for (int64_t c = page.live_begin; c < page.live_end; ++c) {
        const int64_t p = page.first_position + c;
        if (p > position) break;
        attended.push_back(p);
        ASSERT_EQ(page.is_prefix, p < roll_.prefix_tokens);
        const int64_t offset = page.page * paged.page_bytes + paged.k_offset +
                               c * cache_->KeyRowBytes(kFullLayer);
        ASSERT_EQ(written_.at(offset), p) << "another token's key";
        // Seen from position - E, the prefix lies right before the rest.
        const int64_t from =
            page.is_prefix ? position - cache_->Evicted(kSlot) : position;
        ASSERT_LT(from - p, settings_.n_ctx);
        ASSERT_GE(from - p, 0);
      }
    }
    ASSERT_TRUE(std::equal(attended.begin(), attended.end(), live_.begin(),
                           live_.end()))
        << "at position " << position;
  }

  // What attention over rings does, for a chunk that starts at `first`.
  void CheckRing(int64_t position, int64_t first) {
    std::vector<int64_t> wanted;
    for (const int64_t p : live_) {
      if (p > position - settings_.window) wanted.push_back(p);
    }
    std::vector<int64_t> attended;
    const int64_t begin =
        std::max({cache_->LiveBegin(kSlot), position - settings_.window + 1,
                  int64_t{0}});
    for (int64_t p = begin; p <= position; ++p) {
      attended.push_back(p);
      if (p >= first) continue;
      ASSERT_EQ(ring_[static_cast<size_t>(p % settings_.window)], p);
    }
    ASSERT_EQ(attended, wanted) << "at position " << position;
    // By the first eviction the prefix is beyond every window.
    if (cache_->Evicted(kSlot) > 0) {
      ASSERT_GE(attended.front(), roll_.prefix_tokens);
      const int64_t recent =
          static_cast<int64_t>(live_.size()) - roll_.prefix_tokens;
      ASSERT_EQ(static_cast<int64_t>(attended.size()),
                std::min(settings_.window, recent))
          << "the window is full";
    }
  }

  RollSettings settings_;
  planner::ModelShape shape_ = {};
  planner::MemoryPlan plan_ = {};
  std::vector<std::byte> pages_;
  std::vector<std::byte> rings_;
  std::unique_ptr<KvCache> cache_;
  RollPlan roll_;
  std::vector<int64_t> turns_;
  int64_t n_shifted_ = 0;
  std::deque<int64_t> live_;            // positions that are attended
  std::map<int64_t, int64_t> written_;  // byte offset -> position of the key
  std::vector<int64_t> ring_;           // cell -> position
};

TEST(RollingCacheTest, AttendsExactlyThePrefixAndTheRecentTokens) {
  std::mt19937 random(7);
  for (const RollSettings& settings :
       {RollSettings{256, 16, 4, 192}, RollSettings{256, 16, 0, 192},
        RollSettings{256, 60, 64, 100}, RollSettings{300, 100, 5, 1},
        RollSettings{300, 16, 65, 300}, RollSettings{640, 512, 4, 480},
        RollSettings{129, 16, 1, 65}, RollSettings{512, 512, 7, 256}}) {
    SCOPED_TRACE(settings.n_ctx);
    RollingCache rolling(settings);
    ASSERT_EQ(rolling.roll().method, RollMethod::kShift);
    while (rolling.length() < 6 * settings.n_ctx) {
      ASSERT_NO_FATAL_FAILURE(
          rolling.Step(1 + static_cast<int64_t>(random() % 200)));
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
    RollingCache rolling(settings);
    for (int turn = 0; turn < 80; ++turn) {
      const auto n_tokens = 1 + static_cast<int64_t>(random() % 150);
      const int64_t end = rolling.length() + n_tokens;
      rolling.BeginTurn();
      for (int chunk = 0; chunk < 100 && rolling.length() < end; ++chunk) {
        ASSERT_NO_FATAL_FAILURE(rolling.Step(std::min(
            end - rolling.length(), 1 + static_cast<int64_t>(random() % 90))));
      }
    }
    EXPECT_GT(rolling.n_shifted(), 10);
  }
}

TEST(RollingCacheTest, WhatIsAttendedDoesNotDependOnTheChunks) {
  for (const int64_t n_rows : {1, 7, 64, 512}) {
    SCOPED_TRACE(n_rows);
    RollingCache rolling({256, 16, 4, 192});
    while (rolling.length() < 2'000) {
      ASSERT_NO_FATAL_FAILURE(rolling.Step(n_rows));
    }
  }
}

TEST(RollingCacheTest, NeverTakesMorePagesThanASlotHas) {
  RollingCache rolling({256, 16, 4, 192});
  // The other slot has all of its own.
  ASSERT_TRUE(rolling.cache().Extend(0, 256).ok());
  while (rolling.length() < 3'000) {
    ASSERT_NO_FATAL_FAILURE(rolling.Step(33));
  }
  rolling.cache().Clear(1);
  EXPECT_EQ(rolling.cache().free_pages(), 4);
  EXPECT_EQ(rolling.cache().Evicted(1), 0);
  EXPECT_EQ(rolling.cache().LiveBegin(1), 0);
}

TEST(RollingCacheTest, TokensMayLeaveInTheMiddleOfAPage) {
  RollingCache rolling({256, 16, 4, 192});
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
  RollingCache rolling({256, 16, 4, 192});
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
