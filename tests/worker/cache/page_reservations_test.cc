// What is reserved is enough: a slot that was admitted never lacks a page.
#include "worker/cache/page_reservations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "planner/layout/kv_cache_bytes.h"
#include "planner/layout/memory_plan.h"
#include "planner/model/model_shape.h"

namespace plimsoll::worker {
namespace {

constexpr int64_t kTokensOfPage = 64;
constexpr int64_t kTokensOfSlot = 4 * kTokensOfPage;

// A cache of one layer with full attention. Nobody reads or writes a key, so
// that the pages need no memory.
class CacheOfPages {
 public:
  CacheOfPages(int64_t n_slots, int64_t n_pages) {
    shape_.n_layers = 1;
    shape_.layers.push_back({.n_kv_heads = 1,
                             .head_dim = 16,
                             .ffn_dim = 32,
                             .window = 0,
                             .kv_source = 0});
    plan_.n_ctx = kTokensOfSlot;
    plan_.options.n_slots = n_slots;
    plan_.kv = *planner::KvCacheBytes(
        shape_, {.n_ctx = kTokensOfSlot, .n_slots = n_slots});
    plan_.kv.n_pages = n_pages;
    cache_.emplace(
        shape_, plan_,
        KvRegions{.pages = {nullptr, plan_.kv.full_bytes}, .rings = {}},
        /*max_shared_pages=*/n_pages);
  }
  KvCache& get() { return *cache_; }

 private:
  planner::ModelShape shape_;
  planner::MemoryPlan plan_;
  std::optional<KvCache> cache_;
};

std::vector<int32_t> FirstIds(int64_t n) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TEST(PageReservationsTest, ASlotReservesItsPagesAndThoseToCome) {
  CacheOfPages cache(/*n_slots=*/3, /*n_pages=*/7);
  PageReservations pages(cache.get());
  EXPECT_EQ(pages.left(), 7);
  pages.Add(0, kTokensOfPage);
  EXPECT_EQ(pages.reserved(), 1);
  pages.Add(1, kTokensOfPage + 1);
  EXPECT_EQ(pages.reserved(), 3);
  pages.AddWholeContext();
  EXPECT_EQ(pages.reserved(), 7);
  EXPECT_EQ(pages.left(), 0);
  // What a slot has already is no more than what it reserved.
  ASSERT_TRUE(cache.get().Extend(1, kTokensOfPage + 1).ok());
  pages.Clear();
  EXPECT_EQ(pages.reserved(), 0);
  pages.Add(1, kTokensOfPage + 1);
  EXPECT_EQ(pages.reserved(), 2);
}

TEST(PageReservationsTest, APageOfSeveralSlotsCountsOnce) {
  CacheOfPages owner(/*n_slots=*/3, /*n_pages=*/12);
  KvCache& cache = owner.get();
  PageReservations pages(cache);
  ASSERT_TRUE(cache.Extend(0, 150).ok());
  cache.Publish(0, "a", FirstIds(150));
  EXPECT_EQ(cache.Attach(1, "a", FirstIds(140)).n_tokens, 128);
  pages.Add(0, kTokensOfSlot);
  EXPECT_EQ(pages.reserved(), 4);
  EXPECT_EQ(pages.CountHeld(cache.PagesToShare("a", FirstIds(140))), 2);
  EXPECT_EQ(pages.CountHeld(cache.PagesToShare("b", FirstIds(140))), 0);
  pages.Add(1, kTokensOfSlot);
  EXPECT_EQ(pages.reserved(), 6);
}

// Others still hold such a page when it has left a context that rolls.
TEST(PageReservationsTest, AWholeContextCountsWhatItShares) {
  CacheOfPages owner(/*n_slots=*/3, /*n_pages=*/12);
  KvCache& cache = owner.get();
  PageReservations pages(cache);
  ASSERT_TRUE(cache.Extend(0, 150).ok());
  cache.Publish(0, "a", FirstIds(150));
  pages.AddWholeContext();
  EXPECT_EQ(pages.CountHeld(cache.PagesToShare("a", FirstIds(140))), 0);
  EXPECT_EQ(cache.Attach(1, "a", FirstIds(140)).n_tokens, 128);
  pages.Add(1, kTokensOfSlot);
  EXPECT_EQ(pages.reserved(), 8);
}

// Slots that share beginnings, end early, stop short, guess, and roll.
class Traffic {
 public:
  explicit Traffic(uint32_t seed)
      : random_(seed),
        n_slots_(2 + Draw(5)),
        owner_(n_slots_, 4 + Draw(4 * n_slots_ - 4)),
        slots_(static_cast<size_t>(n_slots_)),
        pages_(cache_) {}

  void Run() {
    for (int i = 0; i < 400 && !::testing::Test::HasFailure(); ++i) {
      const int64_t slot = Draw(n_slots_);
      std::optional<Taken>& taken = slots_[static_cast<size_t>(slot)];
      if (!taken) {
        Begin(slot);
      } else if (Draw(12) == 0) {
        cache_.Clear(slot);
        taken.reset();
      } else {
        GoOn(slot, *taken);
      }
    }
  }

  int64_t n_refused() const { return n_refused_; }
  int64_t n_by_sharing() const { return n_by_sharing_; }

 private:
  struct Taken {
    int64_t n_most;  // positions
    bool rolls;
    std::vector<int32_t> ids;
  };

  int64_t Draw(int64_t below) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(below));
  }

  void CountReservations() {
    pages_.Clear();
    for (int64_t slot = 0; slot < n_slots_; ++slot) {
      const std::optional<Taken>& taken = slots_[static_cast<size_t>(slot)];
      if (!taken) continue;
      if (taken->rolls) {
        pages_.AddWholeContext();
      } else {
        pages_.Add(slot, taken->n_most);
      }
    }
    EXPECT_GE(pages_.left(), 0) << "more is reserved than there is";
  }

  void Begin(int64_t slot) {
    const int64_t n_prompt = 1 + Draw(kTokensOfSlot - 1);
    Taken taken = {.n_most = n_prompt + Draw(kTokensOfSlot - n_prompt + 1),
                   .rolls = Draw(4) == 0,
                   .ids = FirstIds(kTokensOfSlot)};
    // Prompts part from one another at some page, or never.
    taken.ids[static_cast<size_t>(kTokensOfPage * Draw(5) % kTokensOfSlot)] +=
        1'000;
    CountReservations();
    const auto first = std::span(taken.ids).first(
        static_cast<size_t>(std::max<int64_t>(n_prompt - 1, 0)));
    const int64_t n_wanted =
        taken.rolls ? cache_.pages_per_slot()
                    : cache_.MissingPages(slot, taken.n_most) -
                          pages_.CountHeld(cache_.PagesToShare("", first));
    if (n_wanted > pages_.left()) {
      ++n_refused_;
      return;
    }
    if (!taken.rolls &&
        cache_.MissingPages(slot, taken.n_most) > pages_.left()) {
      ++n_by_sharing_;
    }
    cache_.Begin(slot, 0);
    cache_.Attach(slot, "", first);
    slots_[static_cast<size_t>(slot)] = std::move(taken);
    CountReservations();
  }

  void GoOn(int64_t slot, const Taken& taken) {
    const int64_t length = cache_.Length(slot);
    if (taken.rolls && cache_.Live(slot) == kTokensOfSlot) {
      Draw(3) == 0 ? cache_.Clear(slot) : cache_.Evict(slot, kTokensOfPage);
      return;
    }
    const int64_t end =
        taken.rolls ? kTokensOfSlot + cache_.Evicted(slot) : taken.n_most;
    if (length >= end) return;
    const int64_t n = 1 + Draw(end - length);
    const absl::Status extended = cache_.Extend(slot, length + n);
    EXPECT_TRUE(extended.ok()) << extended;
    if (Draw(4) == 0) cache_.Truncate(slot, length + 1 + Draw(n));
    if (cache_.Evicted(slot) == 0) {
      cache_.Publish(
          slot, "",
          std::span(taken.ids).first(static_cast<size_t>(cache_.Length(slot))));
    }
    CountReservations();
  }

  std::mt19937 random_;
  int64_t n_slots_;
  CacheOfPages owner_;
  KvCache& cache_ = owner_.get();
  std::vector<std::optional<Taken>> slots_;
  PageReservations pages_;
  int64_t n_refused_ = 0;
  int64_t n_by_sharing_ = 0;
};

TEST(PageReservationsTest, NoSlotEverLacksAPage) {
  constexpr uint32_t kRuns = 2'000;
  int64_t n_refused = 0;
  int64_t n_by_sharing = 0;
  for (uint32_t seed = 1; seed <= kRuns; ++seed) {
    SCOPED_TRACE(seed);
    Traffic traffic(seed);
    traffic.Run();
    if (::testing::Test::HasFailure()) return;
    n_refused += traffic.n_refused();
    n_by_sharing += traffic.n_by_sharing();
  }
  EXPECT_GT(n_refused, kRuns) << "no pool was too small";
  EXPECT_GT(n_by_sharing, kRuns / 10) << "sharing made no room";
}

}  // namespace
}  // namespace plimsoll::worker
