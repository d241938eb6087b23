// The cache's index arithmetic: every row has its own bytes, inside its region.
#include "worker/cache/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "planner/layout/kv_cache_bytes.h"

namespace plimsoll::worker {
namespace {

struct Range {
  int64_t begin;
  int64_t end;
};

// True if the ranges neither overlap nor leave [0, bytes).
void ExpectDisjoint(std::vector<Range> ranges, int64_t bytes) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  int64_t end = 0;
  for (const Range& range : ranges) {
    ASSERT_GE(range.begin, end) << "two rows share bytes";
    end = range.end;
  }
  EXPECT_LE(end, bytes);
}

int64_t Sum(const std::vector<Range>& ranges) {
  int64_t sum = 0;
  for (const Range& range : ranges) sum += range.end - range.begin;
  return sum;
}

// A cache over ordinary memory. Layers with window 0 have full attention.
class KvCacheTest : public ::testing::Test {
 protected:
  void Make(const std::vector<int64_t>& windows, int64_t n_ctx, int64_t n_slots,
            DType k_type, DType v_type) {
    shape_.n_layers = static_cast<int64_t>(windows.size());
    shape_.layers.clear();
    for (int64_t il = 0; il < shape_.n_layers; ++il) {
      shape_.layers.push_back({.n_kv_heads = 1 + il % 2,
                               .head_dim = 16,
                               .ffn_dim = 32,
                               .window = windows[static_cast<size_t>(il)],
                               .kv_source = il,
                               .mixer = mixer_});
    }
    plan_.options.n_slots = n_slots;
    plan_.options.k_type = k_type;
    plan_.options.v_type = v_type;
    plan_.n_ctx = n_ctx;
    const auto kv = planner::KvCacheBytes(shape_, {.n_ctx = n_ctx,
                                                   .n_slots = n_slots,
                                                   .k_type = k_type,
                                                   .v_type = v_type});
    ASSERT_TRUE(kv.ok()) << kv.status();
    plan_.kv = *kv;
    pages_.assign(static_cast<size_t>(kv->full_bytes) + 1, std::byte{});
    rings_.assign(static_cast<size_t>(kv->window_bytes) + 1, std::byte{});
    cache_ = std::make_unique<KvCache>(
        shape_, plan_,
        KvRegions{.pages = {pages_.data(), kv->full_bytes},
                  .rings = {rings_.data(), kv->window_bytes}});
  }

  std::vector<Range> PagedRows() const {
    std::vector<Range> rows;
    for (int64_t il = 0; il < shape_.n_layers; ++il) {
      if (cache_->IsRing(il)) continue;
      for (int64_t slot = 0; slot < plan_.options.n_slots; ++slot) {
        for (int64_t p = 0; p < cache_->Length(slot); ++p) {
          const int64_t k = cache_->KeyOffset(il, slot, p);
          const int64_t v = cache_->ValueOffset(il, slot, p);
          rows.push_back({k, k + cache_->KeyRowBytes(il)});
          rows.push_back({v, v + cache_->ValueRowBytes(il)});
        }
      }
    }
    return rows;
  }

  std::vector<Range> RingRows() const {
    std::vector<Range> rows;
    for (int64_t il = 0; il < shape_.n_layers; ++il) {
      if (!cache_->IsRing(il)) continue;
      for (int64_t slot = 0; slot < plan_.options.n_slots; ++slot) {
        const kernels::RingKv ring = cache_->Ring(il, slot);
        for (int64_t cell = 0; cell < ring.window; ++cell) {
          const int64_t k =
              ring.k - rings_.data() + cell * cache_->KeyRowBytes(il);
          const int64_t v =
              ring.v - rings_.data() + cell * cache_->ValueRowBytes(il);
          rows.push_back({k, k + cache_->KeyRowBytes(il)});
          rows.push_back({v, v + cache_->ValueRowBytes(il)});
        }
      }
    }
    return rows;
  }

  planner::MixerKind mixer_ = planner::MixerKind::kAttention;
  planner::ModelShape shape_ = {};
  planner::MemoryPlan plan_ = {};
  std::vector<std::byte> pages_;
  std::vector<std::byte> rings_;
  std::unique_ptr<KvCache> cache_;
};

// Two recurrent layers, of 5 floats each, around one that attends.
class StatesTest : public ::testing::Test {
 protected:
  static constexpr int64_t kSlots = 2;
  static constexpr int64_t kDrafts = 3;
  static constexpr int64_t kIdle = 2;

  StatesTest() {
    using enum planner::MixerKind;
    shape_.n_layers = 3;
    shape_.recurrent = {.n_taps = 2, .n_channels = 5};
    for (const auto mixer : {kShortConv, kAttention, kShortConv}) {
      shape_.layers.push_back({.n_kv_heads = mixer == kAttention ? 1 : 0,
                               .head_dim = 16,
                               .ffn_dim = 32,
                               .window = 0,
                               .kv_source = std::ssize(shape_.layers),
                               .mixer = mixer});
    }
    plan_.options.n_slots = kSlots;
    plan_.options.n_draft = kDrafts;
    plan_.options.n_idle_sessions = kIdle;
    plan_.n_ctx = 256;
    plan_.kv = *planner::KvCacheBytes(shape_, {.n_ctx = 256,
                                               .n_slots = kSlots,
                                               .n_idle = kIdle,
                                               .rules = {.n_draft = kDrafts}});
    states_.resize(static_cast<size_t>(plan_.kv.all_state_bytes) /
                   sizeof(float));
    cache_.emplace(
        shape_, plan_,
        KvRegions{.pages = {nullptr, plan_.kv.full_bytes},
                  .rings = {},
                  .states = {reinterpret_cast<std::byte*>(states_.data()),
                             plan_.kv.all_state_bytes}},
        /*max_shared_pages=*/8);
  }

  planner::ModelShape shape_ = {};
  planner::MemoryPlan plan_ = {};
  std::vector<float> states_;
  std::optional<KvCache> cache_;
};

TEST_F(StatesTest, EveryStateOfEveryLayerHasItsOwnFloats) {
  std::set<int64_t> numbers;
  for (int64_t slot = 0; slot < kSlots; ++slot) {
    for (int64_t i = 0; i <= kDrafts; ++i) {
      numbers.insert(cache_->StateOf(slot, i));
    }
  }
  for (int64_t i = 0; i < kIdle; ++i) {
    numbers.insert(cache_->OfSnapshot(i).state);
  }
  EXPECT_EQ(std::ssize(numbers), kSlots * (1 + kDrafts) + kIdle);
  EXPECT_EQ(*numbers.rbegin() + 1, plan_.kv.n_states);
  std::vector<Range> floats;
  for (const int64_t layer : {0, 2}) {
    const KvCache::LayerStates states = cache_->States(layer);
    EXPECT_EQ(states.stride, 10);
    for (const int64_t number : numbers) {
      const int64_t at = states.first - states_.data() + number * states.stride;
      floats.push_back({at, at + 5});
    }
  }
  ExpectDisjoint(floats, std::ssize(states_));
  EXPECT_EQ(Sum(floats), std::ssize(states_));
}

TEST_F(StatesTest, TheNewestStateMovesAsDraftsAreAccepted) {
  cache_->Begin(1, 0);
  ASSERT_TRUE(cache_->Extend(1, 20).ok());
  EXPECT_EQ(cache_->StateOf(1), 4);
  for (const int64_t n : {0, 2, 3, 1, 3}) {
    const int64_t wanted = cache_->StateOf(1, n);
    cache_->AcceptDrafts(1, n);
    EXPECT_EQ(cache_->StateOf(1), wanted);
    EXPECT_EQ(cache_->OfSlot(1).state, wanted);
  }
  EXPECT_EQ(cache_->StateOf(0), 0);
  cache_->Clear(1);
  EXPECT_EQ(cache_->StateOf(1), 4);
}

TEST_F(StatesTest, NothingIsSharedWithoutASnapshot) {
  EXPECT_TRUE(cache_->NeedsSnapshots());
  const std::vector<int32_t> tokens(128, 7);
  cache_->Begin(0, 0);
  ASSERT_TRUE(cache_->Extend(0, 128).ok());
  cache_->Publish(0, "", tokens);
  EXPECT_EQ(cache_->Attach(1, "", tokens).n_tokens, 0);
  cache_->Clear(1);
  const auto snapshot = cache_->KeepSnapshot("", std::span(tokens).first(64),
                                             PrefixCache::SnapshotOf::kPrompt);
  ASSERT_TRUE(snapshot.has_value());
  const KvCache::Shared shared = cache_->Attach(1, "", tokens);
  EXPECT_EQ(shared.n_tokens, 64);
  EXPECT_EQ(shared.n_matched, 128);
  EXPECT_EQ(shared.snapshot, snapshot);
}

TEST_F(KvCacheTest, RowsOfAllLayersSlotsAndPositionsAreDisjoint) {
  for (const int64_t n_ctx : {1, 15, 16, 17, 40, 64, 65, 300}) {
    for (const DType v_type : {DType::kF16, DType::kF32}) {
      SCOPED_TRACE(n_ctx);
      Make({0, 24, 0, 24, 32, 0}, n_ctx, 3, DType::kF16, v_type);
      // Interleaved growth: a slot's pages are not neighbours.
      for (int64_t n = 1; n <= n_ctx; ++n) {
        for (int64_t slot = 0; slot < 3; ++slot) {
          ASSERT_TRUE(cache_->Extend(slot, n).ok());
        }
      }
      ExpectDisjoint(PagedRows(), plan_.kv.full_bytes);
      ExpectDisjoint(RingRows(), plan_.kv.window_bytes);
      EXPECT_EQ(cache_->free_pages(), 0);
    }
  }
}

TEST_F(KvCacheTest, RowsFillTheRegionsToTheLastByte) {
  Make({24, 0, 24, 0}, 128, 2, DType::kF16, DType::kF32);
  for (int64_t slot = 0; slot < 2; ++slot) {
    ASSERT_TRUE(cache_->Extend(slot, 128).ok());
  }
  EXPECT_EQ(Sum(PagedRows()), plan_.kv.full_bytes);
  EXPECT_EQ(Sum(RingRows()), plan_.kv.window_bytes);
}

TEST_F(KvCacheTest, AWindowNoShorterThanTheContextHasPages) {
  Make({64, 63}, 50, 1, DType::kF16, DType::kF16);
  // 50 tokens are one page of 64 cells.
  EXPECT_FALSE(cache_->IsRing(0));
  EXPECT_TRUE(cache_->IsRing(1));
}

TEST_F(KvCacheTest, ThePagedViewAgreesWithTheOffsets) {
  Make({0, 0}, 200, 2, DType::kF32, DType::kF16);
  ASSERT_TRUE(cache_->Extend(1, 70).ok());
  ASSERT_TRUE(cache_->Extend(0, 200).ok());
  for (int64_t il = 0; il < 2; ++il) {
    const kernels::PagedKv view = cache_->Paged(il);
    for (int64_t p = 0; p < 200; ++p) {
      const auto& entry = cache_->Pages(0)[static_cast<size_t>(p / 64)];
      const int64_t cell = p - entry.first_position;
      EXPECT_EQ(cache_->KeyOffset(il, 0, p),
                entry.page * view.page_bytes + view.k_offset +
                    cell * cache_->KeyRowBytes(il));
      EXPECT_EQ(cache_->ValueOffset(il, 0, p),
                entry.page * view.page_bytes + view.v_offset +
                    cell * cache_->ValueRowBytes(il));
    }
  }
}

TEST_F(KvCacheTest, PagesCoverExactlyTheTokensOfTheirSlot) {
  Make({0}, 200, 1, DType::kF16, DType::kF16);
  for (const int64_t n : {1, 63, 64, 65, 128, 129, 200}) {
    ASSERT_TRUE(cache_->Extend(0, n).ok());
    int64_t position = 0;
    for (const kernels::PageEntry& page : cache_->Pages(0)) {
      EXPECT_EQ(page.first_position + page.live_begin, position);
      EXPECT_GT(page.live_end, page.live_begin);
      EXPECT_FALSE(page.is_prefix);
      position = page.first_position + page.live_end;
    }
    EXPECT_EQ(position, n);
    EXPECT_EQ(cache_->Length(0), n);
  }
}

TEST_F(KvCacheTest, ExtendingToLessChangesNothing) {
  Make({0}, 200, 1, DType::kF16, DType::kF16);
  ASSERT_TRUE(cache_->Extend(0, 100).ok());
  ASSERT_TRUE(cache_->Extend(0, 10).ok());
  EXPECT_EQ(cache_->Length(0), 100);
  EXPECT_EQ(cache_->free_pages(), 2);
}

TEST_F(KvCacheTest, WhatIsTakenBackLeavesWhatWasThere) {
  for (const int64_t prefix : {0, 64, 70}) {
    for (int64_t n = 1; n <= 200; ++n) {
      SCOPED_TRACE(n);
      Make({0}, 448, 1, DType::kF16, DType::kF16);
      cache_->Begin(0, prefix);
      ASSERT_TRUE(cache_->Extend(0, n).ok());
      const std::vector<kernels::PageEntry> before(cache_->Pages(0).begin(),
                                                   cache_->Pages(0).end());
      const int64_t n_free = cache_->free_pages();
      ASSERT_TRUE(cache_->Extend(0, n + 1 + n % 90).ok());
      cache_->Truncate(0, n);
      EXPECT_EQ(cache_->Length(0), n);
      EXPECT_EQ(cache_->free_pages(), n_free);
      ASSERT_EQ(cache_->Pages(0).size(), before.size());
      for (size_t i = 0; i < before.size(); ++i) {
        EXPECT_EQ(cache_->Pages(0)[i].page, before[i].page);
        EXPECT_EQ(cache_->Pages(0)[i].live_end, before[i].live_end);
      }
      // The sequence goes on as if nothing had been there.
      ASSERT_TRUE(cache_->Extend(0, 200).ok());
      EXPECT_EQ(cache_->Pages(0).back().live_end,
                prefix % 64 == 0 ? 200 - 192 : 200 - prefix - 128);
    }
  }
}

TEST_F(KvCacheTest, ClearGivesThePagesBack) {
  Make({0}, 200, 2, DType::kF16, DType::kF16);
  ASSERT_TRUE(cache_->Extend(0, 200).ok());
  ASSERT_TRUE(cache_->Extend(1, 65).ok());
  EXPECT_EQ(cache_->free_pages(), 2);
  cache_->Clear(0);
  EXPECT_EQ(cache_->free_pages(), 6);
  EXPECT_EQ(cache_->Length(0), 0);
  EXPECT_TRUE(cache_->Pages(0).empty());
  EXPECT_EQ(cache_->Length(1), 65) << "the other slot keeps its own";
  cache_->Clear(0);
  EXPECT_EQ(cache_->free_pages(), 6) << "nothing is given back twice";
}

TEST_F(KvCacheTest, AFailedExtendLeavesEverythingAsItWas) {
  Make({0}, 128, 2, DType::kF16, DType::kF16);
  ASSERT_TRUE(cache_->Extend(0, 128).ok());
  ASSERT_TRUE(cache_->Extend(1, 60).ok());
  const absl::Status status = cache_->Extend(1, 129);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(cache_->Length(1), 60);
  EXPECT_EQ(cache_->Pages(1).size(), 1u);
  EXPECT_EQ(cache_->Pages(1)[0].live_end, 60);
  EXPECT_EQ(cache_->free_pages(), 1);
  EXPECT_TRUE(cache_->Extend(1, 128).ok());
}

// The second slot still has the second page, so it could not be forgotten
// before the first one.
TEST_F(KvCacheTest, APageThatFollowsAnEvictedOneIsNotFound) {
  Make({0}, 128, 3, DType::kF16, DType::kF16);
  KvCache cache(shape_, plan_,
                {.pages = {nullptr, plan_.kv.full_bytes}, .rings = {}},
                /*max_shared_pages=*/6);
  const std::vector<int32_t> ids(128, 7);
  ASSERT_TRUE(cache.Extend(0, 128).ok());
  cache.Publish(0, "a", ids);
  ASSERT_EQ(cache.Attach(1, "a", ids).n_tokens, 128);
  cache.Evict(1, 64);
  cache.Publish(0, "a", ids);
  EXPECT_EQ(cache.PagesToShare("a", ids).size(), 1u);
  cache.Clear(0);
  ASSERT_EQ(cache.free_pages(), 5);
  EXPECT_TRUE(cache.Extend(0, 128).ok());
  EXPECT_TRUE(cache.Extend(2, 128).ok());
  EXPECT_TRUE(cache.Extend(1, 192).ok()) << "a free page can be taken";
  EXPECT_EQ(cache.free_pages(), 0);
}

TEST_F(KvCacheTest, RandomUseNeverGivesAPageTwice) {
  Make({0, 0}, 150, 4, DType::kF16, DType::kF16);
  std::mt19937 random(1);
  for (int round = 0; round < 2'000; ++round) {
    const auto slot = static_cast<int64_t>(random() % 4);
    if (random() % 5 == 0) {
      cache_->Clear(slot);
    } else {
      ASSERT_TRUE(
          cache_->Extend(slot, 1 + static_cast<int64_t>(random() % 150)).ok());
    }
    std::set<int32_t> used;
    for (int64_t s = 0; s < 4; ++s) {
      for (const auto& page : cache_->Pages(s)) {
        ASSERT_TRUE(used.insert(page.page).second);
      }
    }
    ASSERT_EQ(static_cast<int64_t>(used.size()) + cache_->free_pages(), 12);
  }
}

TEST_F(KvCacheTest, ValuesOfLatentAttentionLieInTheKeysRows) {
  mixer_ = planner::MixerKind::kLatentAttention;
  Make({0, 0}, 128, 2, DType::kF16, DType::kF32);
  for (const int64_t slot : {0, 1}) {
    ASSERT_TRUE(cache_->Extend(slot, 70).ok());
  }
  std::vector<Range> rows;
  for (int64_t il = 0; il < 2; ++il) {
    EXPECT_EQ(cache_->ValueRowBytes(il), 0);
    EXPECT_EQ(cache_->Paged(il).v_offset, cache_->Paged(il).k_offset);
    for (const int64_t slot : {0, 1}) {
      for (int64_t p = 0; p < 70; ++p) {
        const int64_t k = cache_->KeyOffset(il, slot, p);
        rows.push_back({k, k + cache_->KeyRowBytes(il)});
      }
    }
  }
  // Layers of the fixture have one head and two.
  EXPECT_EQ(Sum(rows), 2 * 70 * (16 + 32) * 2);
  ExpectDisjoint(rows, plan_.kv.full_bytes);
}

}  // namespace
}  // namespace plimsoll::worker
