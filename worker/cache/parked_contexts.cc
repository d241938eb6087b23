#include "worker/cache/parked_contexts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "base/status_macros.h"
#include "base/sync/fault.h"

namespace plimsoll::worker {
namespace {

// Pages of one operation: their offsets fit what a device has room for.
constexpr size_t kMaxPagesAtOnce = 256;

// Where pieces of one size are in a memory.
struct Pieces {
  std::byte* data;
  std::span<const int64_t> offsets;  // where each piece is, from `data` on
};

// Copies each piece of `from`, of `bytes` bytes, to its place in `to`.
absl::Status CopyEach(const ParkedContexts::Part& part, const Pieces& from,
                      const Pieces& to, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  const size_t n_pieces = from.offsets.size();
  for (size_t i = 0; i < n_pieces; i += kMaxPagesAtOnce) {
    const size_t n = std::min(kMaxPagesAtOnce, n_pieces - i);
    RETURN_IF_ERROR(
        part.backend->CopyRows({.src = from.data,
                                .src_offsets = from.offsets.data() + i,
                                .dst = to.data,
                                .dst_offsets = to.offsets.data() + i,
                                .n_rows = static_cast<int64_t>(n),
                                .row_bytes = bytes}));
    RETURN_IF_ERROR(part.backend->Synchronize());
  }
  return absl::OkStatus();
}

}  // namespace

ParkedContexts::ParkedContexts(KvCache& cache, std::vector<Part> parts,
                               int64_t n_places)
    : cache_(cache),
      parts_(std::move(parts)),
      pages_per_slot_(cache.pages_per_slot()),
      left_(static_cast<size_t>(n_places)) {
  for (int64_t i = n_places - 1; i >= 0; --i) free_.push_back(i);
}

absl::Status ParkedContexts::Park(int64_t id, int64_t slot) {
  Place place = {free_.back(), cache_.Held(slot)};
  PrepareFor(slot, place.number);
  absl::Status copied = Copy(place, slot, Direction::kOut);
  if (!copied.ok()) {
    // It is not known whose bytes the place holds: the next context clears it.
    left_[static_cast<size_t>(place.number)].owner.reset();
    return copied;
  }
  free_.pop_back();
  places_.emplace(id, std::move(place));
  return absl::OkStatus();
}

void ParkedContexts::PrepareFor(int64_t slot, int64_t number) {
  Left& left = left_[static_cast<size_t>(number)];
  const auto n_pages = std::ssize(cache_.Pages(slot));
  const std::string& owner = cache_.OwnerOf(slot);
  if (left.owner != owner) {
    for (size_t part = 0; part < parts_.size(); ++part) {
      const int64_t page_bytes = cache_.PageBytes(part);
      const int64_t n = std::max<int64_t>(left.n_pages - n_pages, 0);
      std::memset(PlaceIn(part, number) + n_pages * page_bytes, 0,
                  static_cast<size_t>(n * page_bytes));
    }
    left = {owner, n_pages};
  }
  left.n_pages = std::max(left.n_pages, n_pages);
}

std::byte* ParkedContexts::PlaceIn(size_t part, int64_t number) const {
  const KvCache::BesidePages any = cache_.OfSlot(0);
  const int64_t bytes = pages_per_slot_ * cache_.PageBytes(part) +
                        cache_.Rings(part, any).bytes +
                        cache_.State(part, any).bytes;
  return parts_[part].memory.data + number * bytes;
}

absl::Status ParkedContexts::Restore(int64_t id, int64_t slot) {
  const Place place = std::move(places_.extract(id).mapped());
  free_.push_back(place.number);
  RETURN_IF_ERROR(cache_.Restore(slot, place.held));
  absl::Status status = Copy(place, slot, Direction::kIn);
  if (!status.ok()) cache_.Clear(slot);
  return status;
}

void ParkedContexts::Forget(int64_t id) {
  const auto found = places_.find(id);
  if (found == places_.end()) return;
  free_.push_back(found->second.number);
  places_.erase(found);
}

absl::Status ParkedContexts::Copy(const Place& place, int64_t slot,
                                  Direction direction) {
  if ((direction == Direction::kOut && PLIMSOLL_FAULT("kv.park")) ||
      (direction == Direction::kIn && PLIMSOLL_FAULT("kv.restore"))) {
    return absl::UnavailableError("the device copied nothing");
  }
  const std::span<const kernels::PageEntry> pages = cache_.Pages(slot);
  std::vector<int64_t> in_pool(pages.size());
  std::vector<int64_t> in_place(pages.size());
  const auto copy = [direction](const Part& part, const Pieces& on_device,
                                const Pieces& on_host, int64_t bytes) {
    return direction == Direction::kOut
               ? CopyEach(part, on_device, on_host, bytes)
               : CopyEach(part, on_host, on_device, bytes);
  };
  for (size_t part = 0; part < parts_.size(); ++part) {
    const int64_t page_bytes = cache_.PageBytes(part);
    const KvCache::BesidePages beside = cache_.OfSlot(slot);
    const kernels::BufferView rings = cache_.Rings(part, beside);
    const kernels::BufferView state = cache_.State(part, beside);
    const int64_t pages_bytes = pages_per_slot_ * page_bytes;
    std::byte* host = PlaceIn(part, place.number);
    for (size_t i = 0; i < pages.size(); ++i) {
      in_pool[i] = pages[i].page * page_bytes;
      in_place[i] = static_cast<int64_t>(i) * page_bytes;
    }
    RETURN_IF_ERROR(copy(parts_[part], {cache_.Pool(part).data, in_pool},
                         {host, in_place}, page_bytes));
    const std::array<int64_t, 1> zero = {0};
    host += pages_bytes;
    RETURN_IF_ERROR(
        copy(parts_[part], {rings.data, zero}, {host, zero}, rings.bytes));
    host += rings.bytes;
    RETURN_IF_ERROR(
        copy(parts_[part], {state.data, zero}, {host, zero}, state.bytes));
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::worker
