#include "worker/engine/slot_pages.h"

#include <algorithm>
#include <cstddef>

namespace plimsoll::worker {
namespace {

bool IsPoolSmallerThanSlots(const planner::MemoryPlan& plan) {
  return plan.kv.n_pages < plan.options.n_slots * plan.kv.pages_per_slot;
}

bool Rolls(const Sequence& sequence) {
  return sequence.options().roll.policy == ContextPolicy::kRoll;
}

}  // namespace

SlotPages::SlotPages(const EngineResources& resources)
    : cache_(*resources.cache),
      n_ctx_(resources.plan().n_ctx),
      is_scarce_(IsPoolSmallerThanSlots(resources.plan())) {
  claims_.reserve(static_cast<size_t>(resources.plan().options.n_slots));
}

void SlotPages::ClaimForSession(int64_t slot) {
  claims_.push_back(
      {.id = 0, .n_to_come = cache_.PagesToFull(slot), .can_leave = false});
}

void SlotPages::ClaimFor(const Sequence& sequence, int64_t slot) {
  claims_.push_back({.id = sequence.id(),
                     .n_to_come = PagesToCome(sequence, slot),
                     .can_leave = !Rolls(sequence)});
}

// A context that rolls keeps keys that nobody can compute again, so all pages
// that it may ever need are promised to it.
int64_t SlotPages::PagesToCome(const Sequence& sequence, int64_t slot) const {
  if (sequence.end()) return 0;
  if (Rolls(sequence)) return cache_.PagesToFull(slot);
  return cache_.MissingPages(
      slot, std::min(sequence.history().n_positions(), n_ctx_));
}

bool SlotPages::HasRoomFor(const Sequence& sequence, int64_t slot) const {
  const int64_t n_wanted = PagesToCome(sequence, slot);
  // A sequence that has ended waits for its reader only.
  return n_wanted == 0 ||
         PromisedPages(claims_) + n_wanted <= cache_.free_pages();
}

std::optional<int64_t> SlotPages::Victim() const {
  return ChooseVictim(claims_, cache_.free_pages());
}

}  // namespace plimsoll::worker
