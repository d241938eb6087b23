// Which rows go in the next step: a pure state machine without threads, clock
// or device.
#ifndef PLIMSOLL_WORKER_SCHEDULING_SCHEDULER_H_
#define PLIMSOLL_WORKER_SCHEDULING_SCHEDULER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "worker/scheduling/fair_queue.h"

namespace plimsoll::worker {

// The rows of one sequence in the next step.
struct ScheduledRows {
  int64_t id;
  int64_t slot;
  int64_t first_position;
  int64_t n_rows;
  bool samples;              // its last row's logits are wanted
  bool is_decoding = false;  // a row of a token that was generated
  int64_t n_draft = 0;     // and so many of guessed ones after it, all sampled
  int64_t n_rejected = 0;  // of these, once they are computed: see Reject
};

// What a sequence begins with in its slot.
struct Admission {
  int64_t n_computed;  // of its rows, less than its prompt has
  // Rows at positions of `limit` and beyond are not taken: the context is full
  // there.
  int64_t limit;
};

// Slots go to those that wait by FairQueue, and what is computed counts in it;
// every step takes one row of each decoding sequence first, those that waited
// longest before the others where not all fit, then prompt rows until the step
// is full or has as many as it may: those of the peer, and of its tenant, that
// had its last ones longest ago first, each tenant's in order of admission.
// Where decoding would take every row the first prompt takes turns with it.
// Not thread-safe.
class Scheduler {
 public:
  // Steps that the next one of a peer waits for a slot before a sequence of a
  // tenant with more slots gives up its own,
  static constexpr int64_t kMostWaited = 64;
  // which it has for so many steps at least, and for one more for each
  // kRowsOfSlice rows that it will compute again: these cost less than a step
  // each, but there may be many.
  static constexpr int64_t kLeastSlice = 128;
  static constexpr int64_t kRowsOfSlice = 16;
  // A sequence that cannot begin again as it was gives it up only after so
  // many.
  static constexpr int64_t kMostWaitedOfInexact = 256;
  // A sequence that is parked gives it up after so many steps to whoever waits,
  // one of its own tenant too, and however long that one has waited: it does
  // not use it.
  static constexpr int64_t kMostParked = 16;
  // A prompt costs no more than this when it gets its slot, and the rest as it
  // is computed: newcomers begin where a party is that has paid for one, so
  // those that wait already are no further behind them.
  static constexpr int64_t kMostInAdvance = 256;

  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  // `n_ctx` is the most that a sequence computes again after it lost its slot.
  Scheduler(int64_t n_slots, int64_t n_rows, int64_t max_waiting,
            int64_t n_ctx = kNoLimit)
      : n_rows_(n_rows), max_waiting_(max_waiting), n_ctx_(n_ctx) {
    for (int64_t slot = n_slots - 1; slot >= 0; --slot) {
      free_slots_.push_back(slot);
    }
    decoding_.reserve(static_cast<size_t>(n_slots));
    prefilling_.reserve(static_cast<size_t>(n_slots));
  }

  // Where the queue is full the newest that waits of the tenant with most of it
  // is removed for a newcomer of one with less, and told: see
  // FairQueue::GivesWay. To be called before Add.
  std::optional<int64_t> GiveWayTo(const Claim& newcomer);
  // Queues a sequence of `n_prompt` > 0 tokens.
  // Errors: kResourceExhausted if max_waiting sequences wait already and it is
  // not kAdmitted.
  absl::Status Add(int64_t id, int64_t n_prompt, const Claim& claim = {},
                   Waits how = Waits::kNew);

  // The same for a sequence that has a slot already, in which `n_computed` of
  // its rows are: it runs at once, up to the row `limit`.
  void Resume(int64_t id, int64_t slot, int64_t n_computed, int64_t n_prompt,
              int64_t limit, const Claim& claim);

  // Moves the limit of a running sequence, as tokens of it have left.
  void SetLimit(int64_t id, int64_t limit);
  // The slice of a running sequence begins, though it has prompt rows left.
  // Where it loses its slot it goes on from here, after no more than a context.
  void BeginSlice(int64_t id);
  // The next step may take rows of `n` guessed tokens of a running sequence
  // beside that of its newest one, where it is decoding, as many as there is
  // room for.
  void SetDraft(int64_t id, int64_t n);
  // The last `n` rows of its last step count no more.
  void Reject(int64_t id, int64_t n);
  // A running sequence starts over, as one with `n_prompt` tokens.
  void Restart(int64_t id, int64_t n_prompt, int64_t limit);

  // Gives free slots to those that wait; `begin` is told of each and says what
  // is there already, or nullopt if it must wait: then all others do, too.
  void Admit(
      absl::FunctionRef<std::optional<Admission>(int64_t id, int64_t slot)>
          begin);
  // A running sequence loses its slot and waits, before all of its tenant and
  // priority that did not run yet, or if it is parked from when it is not any
  // more, to begin again as one with `n_prompt` tokens.
  void Preempt(int64_t id, int64_t n_prompt);
  // The sequence that has had its slot for long enough, if another tenant has
  // waited for one for too long after Admit; `is_exact` says of one whether it
  // can begin again and lose nothing.
  std::optional<int64_t> WhoseSliceEnds(
      absl::FunctionRef<bool(int64_t id)> is_exact) const;
  // It loses its slot and waits as others do, or if it is parked from when it
  // is not any more, to begin again as one with `n_prompt` tokens.
  void Yield(int64_t id, int64_t n_prompt);
  // The rows of the next step, at most `max_prompt_rows` of them of prompts;
  // empty if nothing can run. Who waits, waits until Admit: no sequence runs
  // that was not begun. The rows count as computed when the next call is made.
  std::vector<ScheduledRows> NextStep(int64_t max_prompt_rows = kNoLimit) {
    std::vector<ScheduledRows> step;
    NextStep([max_prompt_rows](int64_t) { return max_prompt_rows; }, step);
    return step;
  }
  // The same, in the room that `step` has. `most_prompt_rows` says how many
  // rows of prompts may be in the step where they go on from a position; of
  // prompts at several positions each takes its part of what is left.
  void NextStep(absl::FunctionRef<int64_t(int64_t position)> most_prompt_rows,
                std::vector<ScheduledRows>& step);
  // Sequences that have a row to decode in the next step.
  int64_t Decoding() const;

  // A parked sequence keeps its slot, until others need it, and takes part in
  // no step; one that lost its slot waits for none.
  void Park(int64_t id);
  void Unpark(int64_t id);
  // Ends a sequence, waiting or running, and frees its slot.
  void Remove(int64_t id) { Remove(id, /*frees_slot=*/true); }
  // The same, but its slot is kept until FreeSlot.
  void RemoveKeepingSlot(int64_t id) { Remove(id, /*frees_slot=*/false); }
  void FreeSlot(int64_t slot) { free_slots_.push_back(slot); }

  // True for a running sequence that is parked.
  bool IsParked(int64_t id) const;
  // The slot of a running sequence.
  std::optional<int64_t> SlotOf(int64_t id) const;
  // Tells `visit` of those that run, in order of admission.
  void ForRunning(
      absl::FunctionRef<void(int64_t id, int64_t slot)> visit) const;
  // Sequences that were preempted or have yielded are counted, too.
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  // True if any of these would take a slot now.
  bool HasNext() const { return queue_.size() > 0; }
  int64_t running() const { return static_cast<int64_t>(running_.size()); }

 private:
  struct Sequence {
    int64_t id;
    int64_t n_prompt;
    int64_t limit = kNoLimit;  // > n_computed, or it waits for room
    FairQueue::Party* party = nullptr;
    // The step since which it waits, runs, or has computed its prompt in this
    // slot: what it computes again would take its whole slice otherwise.
    int64_t since = 0;
    bool has_prompt = false;
    int64_t parked_since = 0;
    int64_t slot = -1;
    int64_t n_computed = 0;  // rows scheduled so far
    int64_t n_draft = 0;     // guessed tokens of the next step
    int64_t last_turn = 0;   // when rows of it were last taken
    bool is_parked = false;
    int64_t n_paid = 0;  // rows of its prompt that cost its tenant nothing more
    bool has_run = false;

    bool CanRun() const { return !is_parked && n_computed < limit; }
    bool IsDecoding() const { return n_computed >= n_prompt; }
  };

  void Remove(int64_t id, bool frees_slot);
  // The running sequence of this id, or null.
  Sequence* Running(int64_t id);
  // The same of one that waits, too.
  Sequence* Find(int64_t id);
  bool IsIdle(const Sequence& s) const {
    const int64_t since = std::max(s.since, s.parked_since);
    return s.is_parked && n_steps_ - since >= kMostParked;
  }
  // Takes a running sequence's slot; it waits from now on.
  void Withdraw(int64_t id, int64_t n_prompt);
  // Puts a running sequence among `prefilling_`, where its turn is.
  void AddPrefilling(Sequence& sequence);

  int64_t n_rows_;
  int64_t max_waiting_;
  int64_t n_ctx_;
  int64_t n_turns_ = 0;
  int64_t n_steps_ = 0;
  std::vector<int64_t> free_slots_;      // the next one to use last
  FairQueue queue_;                      // ids of `waiting_`, unless parked
  std::map<int64_t, Sequence> waiting_;  // by id
  std::deque<Sequence> running_;         // in order of admission
  // Scratch of NextStep, in the order of their turns.
  std::vector<Sequence*> decoding_;
  std::vector<Sequence*> prefilling_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SCHEDULING_SCHEDULER_H_
