// Contexts come back to the bit as they left, in other pages, and room for them
// is never lost.
#include "worker/cache/parked_contexts.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"
#include "planner/layout/kv_cache_bytes.h"
#include "tests/worker/cache/mixed_shape.h"

namespace plimsoll::worker {
namespace {

// A cache of two slots, with pages, rings and states, on one device, or the
// layers of each part on one of two.
class ParkedContextsTest : public ::testing::TestWithParam<size_t> {
 protected:
  static constexpr int64_t kContext = 1'000;
  static constexpr int64_t kSlots = 2;
  static constexpr int64_t kPlaces = 1;
  static constexpr int64_t kDrafts = 2;

  struct Memory {
    planner::ModelShape shape;
    planner::MemoryPlan plan;
    std::vector<std::byte> pages, rings, states, places;
  };

  ParkedContextsTest() {
    std::vector<KvPart> kv;
    std::vector<ParkedContexts::Part> parked;
    memory_.resize(GetParam());
    for (Memory& m : memory_) {
      m.shape = testing::MixedShape();
      m.plan.options.n_slots = kSlots;
      m.plan.options.n_draft = kDrafts;
      m.plan.n_ctx = kContext;
      m.plan.kv =
          *planner::KvCacheBytes(m.shape, {.n_ctx = kContext,
                                           .n_slots = kSlots,
                                           .rules = {.n_draft = kDrafts}});
      m.pages.resize(static_cast<size_t>(m.plan.kv.full_bytes));
      m.rings.resize(static_cast<size_t>(m.plan.kv.window_bytes));
      m.states.resize(static_cast<size_t>(m.plan.kv.all_state_bytes));
      m.places.resize(static_cast<size_t>(kPlaces * m.plan.kv.SlotBytes()));
      kv.push_back({.shape = &m.shape,
                    .plan = &m.plan,
                    .regions = {.pages = ViewOf(m.pages),
                                .rings = ViewOf(m.rings),
                                .states = ViewOf(m.states)},
                    .backend = backend_.get()});
      parked.push_back({backend_.get(), ViewOf(m.places)});
    }
    cache_ = std::make_unique<KvCache>(kv);
    parked_ = std::make_unique<ParkedContexts>(*cache_, parked, kPlaces);
  }

  static kernels::BufferView ViewOf(std::vector<std::byte>& bytes) {
    return {bytes.data(), static_cast<int64_t>(bytes.size())};
  }

  // Fills a slot with so many tokens, of which some have left.
  void Fill(int64_t slot, int64_t n_tokens, int64_t n_evicted) {
    cache_->Begin(slot, /*prefix_tokens=*/70);
    ASSERT_TRUE(cache_->Extend(slot, n_tokens).ok());
    if (n_evicted > 0) cache_->Evict(slot, n_evicted);
  }
  // Writes all of a slot's bytes, or reads them.
  void Write(int64_t slot, int seed) {
    for (std::byte* at : Bytes(slot)) {
      *at = static_cast<std::byte>(seed = (seed * 75 + 74) % 65'537);
    }
  }
  std::vector<std::byte> Read(int64_t slot) {
    std::vector<std::byte> bytes;
    for (const std::byte* at : Bytes(slot)) bytes.push_back(*at);
    return bytes;
  }

  kernels::ThreadPool pool_{1, kernels::WorkerCpus::kAny};
  std::unique_ptr<kernels::Backend> backend_ = kernels::NewCpuBackend(pool_);
  std::vector<Memory> memory_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<ParkedContexts> parked_;

 private:
  std::vector<std::byte*> Bytes(int64_t slot) {
    std::vector<std::byte*> bytes;
    const auto add = [&bytes](std::byte* data, int64_t n) {
      for (int64_t i = 0; i < n; ++i) bytes.push_back(data + i);
    };
    for (size_t part = 0; part < memory_.size(); ++part) {
      for (const kernels::PageEntry& page : cache_->Pages(slot)) {
        const int64_t n = cache_->PageBytes(part);
        add(cache_->Pool(part).data + page.page * n, n);
      }
      const kernels::BufferView rings =
          cache_->Rings(part, cache_->OfSlot(slot));
      add(rings.data, rings.bytes);
      const kernels::BufferView state =
          cache_->State(part, cache_->OfSlot(slot));
      EXPECT_EQ(state.bytes, 2 * 16 * 4);
      add(state.data, state.bytes);
    }
    return bytes;
  }
};

TEST_P(ParkedContextsTest, AContextComesBackIntoAnotherSlotAsItLeft) {
  for (const int64_t n_tokens : {int64_t{300}, kContext}) {
    Fill(0, n_tokens, /*n_evicted=*/200);
    cache_->AcceptDrafts(0, 2);
    Write(0, 1);
    const std::vector<std::byte> before = Read(0);
    const KvCache::Slot held = cache_->Held(0);
    ASSERT_TRUE(parked_->Park(7, 0).ok());
    EXPECT_TRUE(parked_->Has(7));
    EXPECT_FALSE(parked_->HasRoom());
    cache_->Clear(0);
    // Somebody else uses its pages and its rings.
    Fill(0, 130, 0);
    Write(0, 2);
    ASSERT_TRUE(parked_->Restore(7, 1).ok());
    EXPECT_FALSE(parked_->Has(7));
    EXPECT_TRUE(parked_->HasRoom());
    EXPECT_EQ(Read(1), before);
    const KvCache::Slot& got = cache_->Held(1);
    EXPECT_EQ(got.length, held.length);
    EXPECT_EQ(got.evicted, held.evicted);
    EXPECT_EQ(got.live_begin, held.live_begin);
    EXPECT_EQ(got.prefix_tokens, held.prefix_tokens);
    ASSERT_EQ(got.pages.size(), held.pages.size());
    for (size_t i = 0; i < held.pages.size(); ++i) {
      EXPECT_EQ(got.pages[i].first_position, held.pages[i].first_position);
      EXPECT_EQ(got.pages[i].live_begin, held.pages[i].live_begin);
      EXPECT_EQ(got.pages[i].live_end, held.pages[i].live_end);
    }
    // It grows as it would have.
    ASSERT_TRUE(cache_->Extend(1, n_tokens + 1).ok());
    cache_->Clear(0);
    cache_->Clear(1);
  }
}

TEST_P(ParkedContextsTest, RoomIsFreeAgainOnceAContextIsForgotten) {
  for (int64_t id = 1; id < 5; ++id) {
    Fill(0, 200, 50);
    ASSERT_TRUE(parked_->HasRoom());
    ASSERT_TRUE(parked_->Park(id, 0).ok());
    cache_->Clear(0);
    parked_->Forget(id);
    parked_->Forget(id);
  }
  EXPECT_TRUE(parked_->HasRoom());
}

INSTANTIATE_TEST_SUITE_P(Parts, ParkedContextsTest, ::testing::Values(1, 2));

}  // namespace
}  // namespace plimsoll::worker
