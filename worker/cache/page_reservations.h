// The most pages that taken slots may need if no sequence may lose its pages
// before it has ended.
#ifndef PLIMSOLL_WORKER_CACHE_PAGE_RESERVATIONS_H_
#define PLIMSOLL_WORKER_CACHE_PAGE_RESERVATIONS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "worker/cache/kv_cache.h"

namespace plimsoll::worker {

// Adds up reservations. While those of all taken slots are at most the pages of
// the pool, no slot lacks a page: a slot with a whole context has at most its
// own pages, and the other slots have those that they hold, each counted once
// however many of them share it, and those that they still lack. A whole
// context is counted without what it shares, because its pages leave it while
// others still use them. The caller clears the object and adds every taken
// slot, then asks. Not thread-safe; allocates nothing after construction.
class PageReservations {
 public:
  // The cache outlives the object.
  explicit PageReservations(const KvCache& cache);

  void Clear();
  // Adds a slot whose context may roll, or that a session keeps.
  void AddWholeContext() { n_reserved_ += cache_.pages_per_slot(); }
  // Adds a slot whose sequence never computes a position from `n_positions` on,
  // and whose tokens never leave.
  void Add(int64_t slot, int64_t n_positions);

  // The most pages that the added slots may need.
  int64_t reserved() const { return n_reserved_; }
  // Pages that are left for another sequence; negative if too many are
  // reserved.
  int64_t left() const { return cache_.n_pages() - n_reserved_; }
  // How many of `pages` are counted already, because slots of Add hold them.
  int64_t CountHeld(std::span<const int32_t> pages) const;

 private:
  const KvCache& cache_;
  int64_t n_reserved_ = 0;
  std::vector<bool> is_held_;  // by page: a slot of Add holds it
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_CACHE_PAGE_RESERVATIONS_H_
