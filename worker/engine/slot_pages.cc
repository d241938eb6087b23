#include "worker/engine/slot_pages.h"

#include <algorithm>
#include <cstddef>

#include "worker/engine/contexts.h"

namespace plimsoll::worker {
namespace {

bool IsPoolSmallerThanSlots(const planner::MemoryPlan& plan) {
  return plan.kv.n_pages < plan.options.n_slots * plan.kv.pages_per_slot;
}

bool Rolls(const Sequence& sequence) {
  return sequence.options().roll.policy == ContextPolicy::kRoll;
}

// The positions that a sequence computes at most. Its last token needs none.
int64_t MostPositions(const Sequence& sequence, int64_t n_ctx) {
  const int64_t max_tokens = sequence.options().max_tokens;
  if (max_tokens == 0 || max_tokens > n_ctx) return n_ctx;
  return std::min(sequence.n_prompt() + max_tokens - 1, n_ctx);
}

}  // namespace

SlotPages::SlotPages(const EngineResources& resources, Preemption preemption)
    : cache_(*resources.cache),
      n_ctx_(resources.plan().n_ctx),
      is_scarce_(IsPoolSmallerThanSlots(resources.plan())) {
  claims_.reserve(static_cast<size_t>(resources.plan().options.n_slots));
  if (preemption == Preemption::kOff) reservations_.emplace(cache_);
}

void SlotPages::ClearClaims() {
  claims_.clear();
  if (reservations_) reservations_->Clear();
}

void SlotPages::ClaimForSession(int64_t slot) {
  if (reservations_) return reservations_->AddWholeContext();
  claims_.push_back(
      {.id = 0, .n_to_come = cache_.PagesToFull(slot), .can_leave = false});
}

void SlotPages::ClaimFor(const Sequence& sequence, int64_t slot) {
  if (!reservations_) {
    claims_.push_back({.id = sequence.id(),
                       .n_to_come = PagesToCome(sequence, slot),
                       .can_leave = !Rolls(sequence)});
    return;
  }
  // A session keeps all its pages when its call has ended.
  if (Rolls(sequence)) return reservations_->AddWholeContext();
  const int64_t n_positions =
      sequence.end() ? 0 : MostPositions(sequence, n_ctx_);
  reservations_->Add(slot, n_positions);
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
  if (reservations_) return CanReserve(sequence, slot);
  const int64_t n_wanted = PagesToCome(sequence, slot);
  // A sequence that has ended waits for its reader only.
  return n_wanted == 0 ||
         PromisedPages(claims_) + n_wanted <= cache_.free_pages();
}

bool SlotPages::CanReserve(const Sequence& sequence, int64_t slot) const {
  if (Rolls(sequence)) return reservations_->left() >= cache_.pages_per_slot();
  const int64_t n_wanted =
      cache_.MissingPages(slot, MostPositions(sequence, n_ctx_));
  const int64_t n_missing = n_wanted - reservations_->left();
  if (n_missing <= 0) return true;
  // Only now is it worth looking for pages that others hold already.
  const int64_t n_shareable = Contexts::ShareableTokens(sequence);
  if (n_shareable / cache_.page_tokens() < n_missing) return false;
  return reservations_->CountHeld(cache_.PagesToShare(
             sequence.options().claim.tenant,
             sequence.history().Oldest(n_shareable))) >= n_missing;
}

std::optional<int64_t> SlotPages::ReservedPages() const {
  if (!reservations_) return std::nullopt;
  return reservations_->reserved();
}

std::optional<int64_t> SlotPages::Victim() const {
  if (reservations_) return std::nullopt;
  return ChooseVictim(claims_, cache_.free_pages());
}

}  // namespace plimsoll::worker
