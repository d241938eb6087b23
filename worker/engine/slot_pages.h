// Decides whether a pool of pages that is smaller than all slots together is
// enough for the running sequences, and which sequence begins again later if it
// is not.
#ifndef PLIMSOLL_WORKER_ENGINE_SLOT_PAGES_H_
#define PLIMSOLL_WORKER_ENGINE_SLOT_PAGES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "worker/cache/kv_cache.h"
#include "worker/cache/page_claims.h"
#include "worker/cache/page_reservations.h"
#include "worker/engine/engine_options.h"
#include "worker/engine/engine_resources.h"
#include "worker/engine/sequence.h"

namespace plimsoll::worker {

// Adds up the pages that taken slots will need: for their next rows, or without
// preemption, until they end. The caller clears the claims and adds those of
// every taken slot, then asks. Owned by the engine, used from the step thread
// only; allocates nothing, but where it looks for a shared beginning.
class SlotPages {
 public:
  // `resources` outlives the object.
  SlotPages(const EngineResources& resources, Preemption preemption);

  // True if the pool has fewer pages than all slots together could need.
  // Otherwise nobody ever lacks a page.
  bool is_scarce() const { return is_scarce_; }

  void ClearClaims();
  // A session keeps this slot while no call of it runs.
  void ClaimForSession(int64_t slot);
  // A sequence runs in this slot. Claims are added in the order in which the
  // sequences were admitted.
  void ClaimFor(const Sequence& sequence, int64_t slot);

  // True if there are pages for one more sequence, which begins in an empty
  // slot.
  bool HasRoomFor(const Sequence& sequence, int64_t slot) const;
  // The sequence that must give its pages back, if more are claimed than are
  // free; without preemption there is never one.
  std::optional<int64_t> Victim() const;
  // Pages that the claims reserve; absent with preemption, which reserves none.
  std::optional<int64_t> ReservedPages() const;

 private:
  // HasRoomFor without preemption.
  bool CanReserve(const Sequence& sequence, int64_t slot) const;
  // Pages that a sequence in `slot` will need and does not have yet.
  int64_t PagesToCome(const Sequence& sequence, int64_t slot) const;

  const KvCache& cache_;
  const int64_t n_ctx_;
  const bool is_scarce_;
  std::vector<PageClaim> claims_;                 // with preemption
  std::optional<PageReservations> reservations_;  // without
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_SLOT_PAGES_H_
