// What one tenant wrote is gone before another one gets its memory, and a
// tenant that gets its own back pays nothing. Bytes are read from the device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"
#ifdef PLIMSOLL_TEST_CUDA_EMULATION
#include "kernels/cuda/emulated_backend.h"
#endif
#include "planner/layout/kv_cache_bytes.h"
#include "tests/worker/cache/mixed_shape.h"
#include "tests/worker/device/hooked_backend.h"
#include "worker/cache/kv_cache.h"
#include "worker/cache/parked_contexts.h"

namespace plimsoll::worker {
namespace {

enum class Device { kReference, kCpu, kEmulatedCuda };

std::unique_ptr<kernels::Backend> BackendOf(Device device,
                                            kernels::ThreadPool& pool) {
  if (device == Device::kReference) return kernels::NewReferenceBackend();
#ifdef PLIMSOLL_TEST_CUDA_EMULATION
  if (device == Device::kEmulatedCuda) {
    return *kernels::NewEmulatedCudaBackend();
  }
#endif
  return kernels::NewCpuBackend(pool);
}

// Two slots with pages, rings, drafts and states, on one device, or the layers
// of each part on one of two.
class TenantTracesTest
    : public ::testing::TestWithParam<std::tuple<Device, size_t>> {
 protected:
  static constexpr int64_t kContext = 256;  // four pages
  static constexpr int64_t kSlots = 2;
  static constexpr int64_t kPages = kSlots * kContext / 64;
  static constexpr int64_t kPlaces = 1;
  static constexpr int64_t kDrafts = 2;
  static constexpr int64_t kIdle = 1;
  static constexpr std::byte kWritten{0x5A};

  struct Memory {
    planner::ModelShape shape;
    planner::MemoryPlan plan;
    std::unique_ptr<kernels::Backend> backend;
    kernels::Buffer pages, rings, drafts, states;
    std::vector<std::byte> places;
  };

  TenantTracesTest() : memory_(std::get<1>(GetParam())) {
    std::vector<KvPart> kv;
    std::vector<ParkedContexts::Part> parked;
    for (Memory& m : memory_) {
      Make(m);
      kv.push_back({.shape = &m.shape,
                    .plan = &m.plan,
                    .regions = {.pages = m.pages.view(),
                                .rings = m.rings.view(),
                                .drafts = m.drafts.view(),
                                .states = m.states.view()},
                    .backend = m.backend.get()});
      parked.push_back(
          {m.backend.get(), {m.places.data(), std::ssize(m.places)}});
    }
    cache_ = std::make_unique<KvCache>(kv, /*max_shared_pages=*/kPages);
    parked_ = std::make_unique<ParkedContexts>(*cache_, parked, kPlaces);
  }

  void Make(Memory& m) {
    m.shape = testing::MixedShape();
    m.plan.options.n_slots = kSlots;
    m.plan.options.n_draft = kDrafts;
    m.plan.options.n_idle_sessions = kIdle;
    m.plan.n_ctx = kContext;
    m.plan.kv =
        *planner::KvCacheBytes(m.shape, {.n_ctx = kContext,
                                         .n_slots = kSlots,
                                         .n_idle = kIdle,
                                         .rules = {.n_draft = kDrafts}});
    testing::BackendHooks hooks;
    hooks.clearing = [this](kernels::BufferView) { ++n_cleared_; };
    m.backend = std::make_unique<testing::HookedBackend>(
        BackendOf(std::get<0>(GetParam()), pool_), std::move(hooks));
    m.pages = *m.backend->Allocate(m.plan.kv.full_bytes);
    m.rings = *m.backend->Allocate(m.plan.kv.window_bytes);
    m.drafts =
        *m.backend->Allocate(kSlots * kDrafts * m.plan.kv.ring_row_bytes);
    m.states = *m.backend->Allocate(m.plan.kv.all_state_bytes);
    m.places.resize(static_cast<size_t>(kPlaces * m.plan.kv.SlotBytes()));
  }

  // Gives an empty slot to an owner, with so many tokens.
  void Take(int64_t slot, const std::string& owner, int64_t n_tokens) {
    ASSERT_TRUE(cache_->GiveTo(slot, owner).ok());
    cache_->Begin(slot, /*prefix_tokens=*/0);
    ASSERT_TRUE(cache_->Extend(slot, n_tokens).ok());
  }
  // Writes every byte of a device.
  void WriteAll() {
    for (Memory& m : memory_) {
      for (kernels::Buffer* region :
           {&m.pages, &m.rings, &m.drafts, &m.states}) {
        const std::vector<std::byte> bytes(static_cast<size_t>(region->bytes()),
                                           kWritten);
        ASSERT_TRUE(m.backend->Upload(bytes, region->view()).ok());
      }
    }
  }
  // How many bytes of a view are not zero.
  int64_t Traces(Memory& m, kernels::BufferView view) {
    std::vector<std::byte> bytes(static_cast<size_t>(view.bytes));
    EXPECT_TRUE(m.backend->Download(view, bytes).ok());
    return view.bytes - std::ranges::count(bytes, std::byte{});
  }
  // Bytes that are not zero in a slot's pages, and how many bytes they have.
  std::pair<int64_t, int64_t> TracesInPages(int64_t slot) {
    int64_t n_traces = 0;
    int64_t n_bytes = 0;
    for (size_t part = 0; part < memory_.size(); ++part) {
      const int64_t bytes = cache_->PageBytes(part);
      for (const kernels::PageEntry& page : cache_->Pages(slot)) {
        n_traces += Traces(memory_[part],
                           cache_->Pool(part).Slice(page.page * bytes, bytes));
        n_bytes += bytes;
      }
    }
    return {n_traces, n_bytes};
  }

  // Clears of memory so far.
  int64_t n_cleared_ = 0;
  kernels::ThreadPool pool_{2, kernels::WorkerCpus::kAny};
  std::vector<Memory> memory_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<ParkedContexts> parked_;
};

TEST_P(TenantTracesTest, APageIsClearedBeforeAnotherTenantGetsIt) {
  Take(0, "a", 130);
  WriteAll();
  cache_->Clear(0);
  Take(0, "b", 130);
  const auto [n_traces, n_bytes] = TracesInPages(0);
  EXPECT_EQ(n_traces, 0);
  EXPECT_GT(n_bytes, 0);
  // In another slot as well.
  WriteAll();
  cache_->Clear(0);
  Take(1, "a", 190);
  EXPECT_EQ(TracesInPages(1).first, 0);
}

TEST_P(TenantTracesTest, WhatATenantGetsBackIsAsItLeftIt) {
  for (int round = 0; round < 3; ++round) {
    Take(0, "a", kContext);
    Take(1, "a", kContext);
    WriteAll();
    const auto [n_traces, n_bytes] = TracesInPages(0);
    EXPECT_EQ(n_traces, n_bytes);
    cache_->Clear(0);
    cache_->Clear(1);
  }
  EXPECT_EQ(n_cleared_, 0);
}

TEST_P(TenantTracesTest, RingsDraftsAndStatesAreClearedForAnotherTenant) {
  Take(0, "a", 100);
  Take(1, "c", 100);
  WriteAll();
  cache_->Clear(0);
  Take(0, "b", 1);
  for (size_t part = 0; part < memory_.size(); ++part) {
    Memory& m = memory_[part];
    EXPECT_EQ(Traces(m, cache_->Rings(part, cache_->OfSlot(0))), 0);
    const int64_t draft_bytes = kDrafts * m.plan.kv.ring_row_bytes;
    EXPECT_GT(draft_bytes, 0);
    EXPECT_EQ(Traces(m, m.drafts.view().Slice(0, draft_bytes)), 0);
    for (int64_t i = 0; i <= kDrafts; ++i) {
      const KvCache::BesidePages of = {.rings = 0,
                                       .state = cache_->StateOf(0, i)};
      EXPECT_EQ(Traces(m, cache_->State(part, of)), 0);
    }
    // The neighbour's are as they were, and so is the snapshot.
    for (const auto& of : {cache_->OfSlot(1), cache_->OfSnapshot(0)}) {
      for (const auto& view :
           {cache_->Rings(part, of), cache_->State(part, of)}) {
        EXPECT_EQ(Traces(m, view), view.bytes);
      }
    }
    EXPECT_EQ(Traces(m, m.drafts.view().Slice(draft_bytes, draft_bytes)),
              draft_bytes);
  }
}

TEST_P(TenantTracesTest, APageThatWasSharedIsClearedWhenItIsPushedOut) {
  std::vector<int32_t> ids(kContext);
  std::iota(ids.begin(), ids.end(), 0);
  Take(0, "a", kContext);
  cache_->Publish(0, "a", ids);
  cache_->Clear(0);
  WriteAll();
  Take(0, "b", kContext);
  Take(1, "b", kContext);
  EXPECT_EQ(cache_->free_pages(), 0);
  const auto [n_traces, n_bytes] = TracesInPages(0);
  EXPECT_EQ(n_traces, n_bytes) << "no tenant has had these before";
  EXPECT_EQ(TracesInPages(1).first, 0);
}

TEST_P(TenantTracesTest, ARestoredContextTakesClearedPages) {
  Take(0, "a", 200);
  WriteAll();
  ASSERT_TRUE(parked_->Park(7, 0).ok());
  cache_->Clear(0);
  Take(0, "b", kContext);
  Take(1, "b", kContext);
  cache_->Clear(0);
  cache_->Clear(1);
  const int64_t n_before = n_cleared_;
  ASSERT_TRUE(cache_->GiveTo(1, "a").ok());
  ASSERT_TRUE(parked_->Restore(7, 1).ok());
  EXPECT_EQ(cache_->OwnerOf(1), "a");
  // Rings, drafts, states and four pages of each part.
  EXPECT_EQ(n_cleared_ - n_before, 7 * std::ssize(memory_));
}

TEST_P(TenantTracesTest, AParkedPlaceHoldsNothingOfAnotherTenant) {
  Take(0, "a", 200);
  WriteAll();
  ASSERT_TRUE(parked_->Park(1, 0).ok());
  parked_->Forget(1);
  cache_->Clear(0);
  // It has fewer pages, and nothing in them.
  Take(1, "b", 65);
  const auto [n_traces, n_bytes] = TracesInPages(1);
  EXPECT_EQ(n_traces, 0);
  for (Memory& m : memory_) ASSERT_TRUE(m.backend->Clear(m.rings.view()).ok());
  for (Memory& m : memory_) ASSERT_TRUE(m.backend->Clear(m.states.view()).ok());
  ASSERT_TRUE(parked_->Park(2, 1).ok());
  for (const Memory& m : memory_) {
    EXPECT_EQ(std::ranges::count(m.places, std::byte{}), std::ssize(m.places));
  }
}

TEST_P(TenantTracesTest, AParkedPlaceThatComesBackToItsTenantIsNotCleared) {
  Take(0, "a", 200);
  WriteAll();
  ASSERT_TRUE(parked_->Park(1, 0).ok());
  parked_->Forget(1);
  std::vector<std::byte> before = memory_[0].places;
  Take(1, "a", 65);
  WriteAll();
  ASSERT_TRUE(parked_->Park(2, 1).ok());
  EXPECT_EQ(memory_[0].places, before);
}

std::vector<Device> Devices() {
  std::vector<Device> devices = {Device::kReference, Device::kCpu};
#ifdef PLIMSOLL_TEST_CUDA_EMULATION
  devices.push_back(Device::kEmulatedCuda);
#endif
  return devices;
}

std::string NameOfDevice(
    const ::testing::TestParamInfo<std::tuple<Device, size_t>>& info) {
  const std::map<Device, std::string> names = {
      {Device::kReference, "reference"},
      {Device::kCpu, "cpu"},
      {Device::kEmulatedCuda, "cuda_emulated"}};
  const auto [device, n_parts] = info.param;
  return names.at(device) + "_" + std::to_string(n_parts);
}

INSTANTIATE_TEST_SUITE_P(Devices, TenantTracesTest,
                         ::testing::Combine(::testing::ValuesIn(Devices()),
                                            ::testing::Values(1u, 2u)),
                         NameOfDevice);

}  // namespace
}  // namespace plimsoll::worker
