// The most pages that taken slots may need if no sequence may lose its pages
// before it has ended.
#ifndef PLIMSOLL_WORKER_CACHE_PAGE_RESERVATIONS_H_
#define PLIMSOLL_WORKER_CACHE_PAGE_RESERVATIONS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "worker/cache/kv_cache.h"

namespace plimsoll::worker {

// Adds up reservations. No slot ever lacks a page while the reservations of all
// taken slots do not exceed the pool. A slot with a whole context reserves the
// pages of a full context. Any other slot reserves the pages that it holds and
// the pages that it still needs. A page that several such slots share is
// counted once. A page that a whole context shares is counted for that context
// too, because the context gives it up while other slots still use it. The
// caller clears the object and adds every taken slot, then asks. Not
// thread-safe; allocates nothing after construction.
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
