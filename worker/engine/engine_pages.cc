// A pool of pages that is smaller than all slots together: who may begin, and
// who begins again later so that others can go on.
#include <algorithm>
#include <optional>
#include <vector>

#include "worker/cache/page_claims.h"
#include "worker/engine/engine_impl.h"

namespace plimsoll::worker {

// A context that rolls keeps keys that nobody can compute again: all its pages
// are promised to it.
int64_t Engine::Impl::PagesToCome(const Sequence& sequence,
                                  int64_t slot) const {
  if (sequence.end()) return 0;
  if (sequence.options().roll.policy == ContextPolicy::kRoll) {
    return cache->PagesToFull(slot);
  }
  return cache->MissingPages(
      slot, std::min(sequence.history().n_positions(), plan.n_ctx));
}

std::span<const PageClaim> Engine::Impl::PageClaims() {
  page_claims.clear();
  sessions.ForIdleSlots([this](int64_t slot) {
    page_claims.push_back(
        {.id = 0, .n_to_come = cache->PagesToFull(slot), .can_leave = false});
  });
  scheduler.ForRunning([this](int64_t id,
                              int64_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    const Sequence& sequence = *sequences.at(id);
    page_claims.push_back(
        {.id = id,
         .n_to_come = PagesToCome(sequence, slot),
         .can_leave = sequence.options().roll.policy != ContextPolicy::kRoll});
  });
  return page_claims;
}

bool Engine::Impl::HasPagesFor(const Sequence& sequence, int64_t slot) {
  if (!shares_pool) return true;
  const int64_t n_wanted = PagesToCome(sequence, slot);
  // One that has ended waits for its reader only.
  return n_wanted == 0 ||
         PromisedPages(PageClaims()) + n_wanted <= cache->free_pages();
}

void Engine::Impl::MakeRoom() {
  if (!shares_pool) return;
  while (const std::optional<int64_t> id =
             WhoLeaves(PageClaims(), cache->free_pages())) {
    Sequence& sequence = *sequences.at(*id);
    Drop(sequence);
    scheduler.Preempt(*id, sequence.history().n_positions());
    ++counters.preemptions;
  }
}

}  // namespace plimsoll::worker
