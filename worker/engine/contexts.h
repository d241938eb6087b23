// What each slot's context holds: where it begins, what it shares with others,
// how it rolls, and how it waits while others use its slot.
#ifndef PLIMSOLL_WORKER_ENGINE_CONTEXTS_H_
#define PLIMSOLL_WORKER_ENGINE_CONTEXTS_H_

#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "worker/cache/kv_cache.h"
#include "worker/cache/parked_contexts.h"
#include "worker/cache/roll_plan.h"
#include "worker/engine/engine_resources.h"
#include "worker/engine/sequence.h"
#include "worker/engine/step_counters.h"
#include "worker/graph/decoder/stage.h"
#include "worker/scheduling/scheduler.h"

namespace plimsoll::worker {

// Joins a sequence's history with the KV cache. Knows no scheduler: the caller
// says which slot a sequence has. Owned by the engine, used from the step
// thread only.
class Contexts {
 public:
  // Both outlive the object.
  Contexts(EngineResources& resources, StepCounters& counters);

  // Begins a sequence in an empty slot, which holds nothing of another tenant
  // then. Its context starts with the copy that Park made, or else with the
  // beginning of its prompt that the cache has. Returns nullopt if the slot
  // could not be cleared or the copy not restored: the sequence has ended.
  std::optional<Admission> Begin(Sequence& sequence, int64_t slot);
  // How many tokens of a sequence that begins may come from the cache; 0 if it
  // computes all of them.
  static int64_t ShareableTokens(const Sequence& sequence);
  // The position from which on a sequence may compute no row: its context is
  // full there, or a snapshot of it must be taken first.
  static int64_t RowLimit(const Sequence& sequence);
  // Makes room for the positions before `n_tokens` of a sequence.
  // Errors: kResourceExhausted if no page is left.
  absl::Status Extend(const Sequence& sequence, int64_t slot, int64_t n_tokens);

  // Lets later sequences of the same tenant share what this one has computed.
  void Publish(const Sequence& sequence, int64_t slot);
  // True if the plan has room for snapshots that later sequences share.
  bool CanKeepSnapshots() const { return cache_.KeepsSnapshots(); }
  // Takes a snapshot of the slot for later sequences to share, if the sequence
  // has reached a place for a snapshot. Returns true if it was at such a place:
  // RowLimit has a new value then.
  bool KeepSnapshot(Sequence& sequence, int64_t slot);

  // True if no row fits behind those that the slot has.
  bool IsFull(const Sequence& sequence, int64_t slot) const;
  // Evicts a full context's oldest tokens. Returns whether the context goes on
  // as it is (kShift), or is empty and must be computed again (kRecompute).
  RollMethod Roll(Sequence& sequence, int64_t slot);

  // True if a running sequence can lose its slot and later go on with the same
  // bits: it computes its context again, or gets a copy of it back.
  bool CanLoseSlot(const Sequence& sequence) const;
  // Copies a running sequence's context to host memory, if it could not be
  // computed again with the same bits. Returns false if there is no copy.
  bool Park(const Sequence& sequence, int64_t slot);
  // Gives back the copy of a sequence that has ended.
  void ForgetParked(Sequence& sequence);
  // Empties the slot of a running sequence, which begins again later.
  void Drop(Sequence& sequence, int64_t slot);

  void Clear(int64_t slot) { cache_.Clear(slot); }
  // Positions computed in the slot, evicted ones included.
  int64_t Length(int64_t slot) const { return cache_.Length(slot); }
  // Pages of the cache, and how many of them slots have.
  int64_t n_pages() const { return n_pages_; }
  int64_t UsedPages() const { return n_pages_ - cache_.free_pages(); }

 private:
  // Attaches the beginning of a sequence's prompt that the cache has, up to
  // `n_shareable` tokens. Returns the number of attached tokens.
  int64_t AttachShared(Sequence& sequence, int64_t slot, int64_t n_shareable);
  // Wants a snapshot at the next end of a page in the reply, so that the next
  // turn of the conversation can begin there.
  void KeepNextOfReply(Sequence& sequence) const;
  // Copies all rings and the state from one place to another, on all devices.
  absl::Status Copy(const KvCache::BesidePages& from,
                    const KvCache::BesidePages& to);

  std::span<const Stage> stages_;
  KvCache& cache_;
  ParkedContexts& parked_;
  StepCounters& counters_;
  const int64_t n_pages_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_CONTEXTS_H_
