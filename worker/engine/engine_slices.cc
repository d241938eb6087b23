// Slots that others wait for: who gives one up before it has ended.
#include <cstdint>
#include <optional>

#include "worker/engine/engine_impl.h"

namespace plimsoll::worker {

bool Engine::Impl::FreeSlotForNext() {
  // Nobody waits beside a slot that a session keeps and does not use.
  if (const std::optional<int64_t> slot = sessions.GiveUpSlot()) {
    cache->Clear(*slot);
    scheduler.FreeSlot(*slot);
    return true;
  }
  const std::optional<int64_t> id = scheduler.WhoseSliceEnds(
      [this](int64_t of) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
        return CanGiveSlotUp(*sequences.at(of));
      });
  if (!id) return false;
  Sequence& sequence = *sequences.at(*id);
  // Without room for a copy it goes on as after a recomputation: not to the bit
  // as it would have, but it would keep its slot for ever.
  const bool is_parked = Park(sequence);
  Drop(sequence);
  if (!is_parked) sequence.ForgetComputed();
  if (sequence.end()) {
    // It waits for its reader only, and needs no slot for that.
    scheduler.Remove(*id);
  } else {
    scheduler.Yield(*id, sequence.history().n_positions());
    ++counters.preemptions;
  }
  return true;
}

// Keys of a context from which tokens have left were computed with these: they
// cannot be computed again.
bool Engine::Impl::CanGiveSlotUp(const Sequence& sequence) const {
  return sequence.end() || sequence.history().evicted_positions() == 0 ||
         parked->HasRoom();
}

bool Engine::Impl::Park(const Sequence& sequence) {
  if (sequence.end() || sequence.history().evicted_positions() == 0) {
    return false;
  }
  return parked->HasRoom() &&
         parked->Park(sequence.id(), *scheduler.SlotOf(sequence.id())).ok();
}

void Engine::Impl::Drop(Sequence& sequence) {
  const int64_t slot = *scheduler.SlotOf(sequence.id());
  Publish(sequence, slot);
  cache->Clear(slot);
  sequence.keep_rings_at().clear();
}

}  // namespace plimsoll::worker
