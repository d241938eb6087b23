// Copies of contexts in host memory, for sequences that wait while others use
// their slots.
#ifndef PLIMSOLL_WORKER_CACHE_PARKED_CONTEXTS_H_
#define PLIMSOLL_WORKER_CACHE_PARKED_CONTEXTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "worker/cache/kv_cache.h"

namespace plimsoll::worker {

// Uses the plan's region kv_parked, which has room for the pages and rings of
// some full slots. A restored context has the same bits as before. A place that
// had another owner's context holds nothing of it once a context is parked
// there. Not thread-safe.
class ParkedContexts {
 public:
  // The memory for one part of the cache, which the part's device copies to.
  struct Part {
    kernels::Backend* backend;
    // Host memory: n_places * (a slot's bytes of this part).
    kernels::BufferView memory;
  };

  // `parts` are in the order of the cache's parts. The cache and the backends
  // outlive the object.
  ParkedContexts(KvCache& cache, std::vector<Part> parts, int64_t n_places);

  bool HasRoom() const { return !free_.empty(); }
  bool Has(int64_t id) const { return places_.contains(id); }
  // Copies a slot's context under the sequence's id. The slot stays as it is.
  // Requires room.
  // Errors: those of the devices; then nothing is kept.
  absl::Status Park(int64_t id, int64_t slot);
  // Copies a sequence's context into an empty slot, and forgets it in any case.
  // Errors: those of KvCache::Restore and of the devices; then the slot is
  // empty.
  absl::Status Restore(int64_t id, int64_t slot);
  // Forgets a sequence's context, if it has one here.
  void Forget(int64_t id);

 private:
  struct Place {
    int64_t number;
    KvCache::Slot held;
  };
  // What was left in a place.
  struct Left {
    std::optional<std::string> owner;  // absent if it is not known
    int64_t n_pages = 0;               // the first pages, which may hold bytes
  };
  // Makes room in a place for a context of a slot. A context overwrites all but
  // the pages that it does not have.
  void PrepareFor(int64_t slot, int64_t number);
  std::byte* PlaceIn(size_t part, int64_t number) const;
  enum class Direction { kOut, kIn };
  absl::Status Copy(const Place& place, int64_t slot, Direction direction);

  KvCache& cache_;
  std::vector<Part> parts_;
  int64_t pages_per_slot_;
  std::vector<Left> left_;           // by place
  std::vector<int64_t> free_;        // numbers of places
  std::map<int64_t, Place> places_;  // by id
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_CACHE_PARKED_CONTEXTS_H_
