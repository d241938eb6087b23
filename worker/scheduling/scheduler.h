// Chooses the rows of the next step. A pure state machine without threads,
// clock or device.
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
  bool samples;              // the last row's logits are wanted
  bool is_decoding = false;  // the first row is a generated token
  int64_t n_draft = 0;       // guessed rows at the end, all of them sampled
  int64_t n_rejected = 0;    // guessed rows that were wrong: see Reject
  // True for rows of a prompt while a stream of another tenant decodes.
  bool is_beside_others = false;
};

// The place of a prompt's next rows.
struct PromptPlace {
  int64_t position = 0;           // position of the first row
  bool is_beside_others = false;  // like ScheduledRows::is_beside_others
};

// The state with which a sequence begins in its slot.
struct Admission {
  int64_t n_computed;  // existing rows, fewer than the prompt has
  // Rows at positions of `limit` and beyond are not scheduled: the context is
  // full there.
  int64_t limit;
};

// A sequence that continues in a slot that holds its context.
struct Resumption {
  int64_t id;
  int64_t slot;
  int64_t n_computed;  // rows that the slot holds
  int64_t n_prompt;
  int64_t limit;  // like Admission::limit
  Claim claim = {};
};

// Decides which sequences have slots and which rows are computed next.
// FairQueue chooses the next sequence for a slot, and counts the computed
// tokens. Every step first takes one row of each decoding sequence. If not all
// fit, it takes the sequences that have waited longest. Prompt rows follow,
// until the step is full or has the most prompt rows that it may have. First
// come the prompts of the peer, and of its tenant, whose last rows were longest
// ago, and within a tenant in order of admission. If decoding would take every
// row, decoding and the first prompt take turns. Not thread-safe.
class Scheduler {
 public:
  // After a peer's next request has waited for this many steps, a sequence of a
  // tenant with more slots gives up its slot, if it has run for its slice
  // (kLeastSlice).
  static constexpr int64_t kMostWaited = 64;
  // The slice of a sequence is at least this many steps, and one more for each
  // kRowsOfSlice rows that the sequence must compute again after it loses its
  // slot.
  // A prompt that is longer than its context also gives up its slot after n_ctx
  // rows, because its steps are the longest ones.
  static constexpr int64_t kLeastSlice = 128;
  static constexpr int64_t kRowsOfSlice = 16;
  // A sequence that cannot begin again without loss gives up its slot only
  // after another sequence has waited for this many steps.
  static constexpr int64_t kMostWaitedOfInexact = 256;
  // A sequence that has been parked for this many steps does not use its slot.
  // It gives up the slot to another tenant at once.
  static constexpr int64_t kMostParked = 16;
  // A prompt is charged at most this many tokens when it gets its slot, and the
  // other tokens when they are computed. Newcomers start at the level of a
  // party that has paid this amount, so waiting parties are at most this far
  // behind them.
  static constexpr int64_t kMostInAdvance = 256;

  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  // A tenant has at most max_waiting requests without a slot, including
  // requests that lost their slot while their readers were behind. A peer has
  // at most this many times that number.
  static constexpr int64_t kMostQueuesOfPeer = 4;

  // `n_ctx` is the most tokens that a sequence computes again after it lost its
  // slot.
  Scheduler(int64_t n_slots, int64_t n_rows, int64_t max_waiting,
            int64_t n_ctx = kNoLimit)
      : n_rows_(n_rows), max_waiting_(max_waiting), n_ctx_(n_ctx) {
    for (int64_t slot = n_slots - 1; slot >= 0; --slot) {
      free_slots_.push_back(slot);
    }
    decoding_.reserve(static_cast<size_t>(n_slots));
    prefilling_.reserve(static_cast<size_t>(n_slots));
  }

  // Returns the request that gives way to a newcomer in a full queue, if a
  // tenant with more of the queue has one (FairQueue::GivesWay) and Add will
  // take the newcomer then. Remove it before Add.
  std::optional<int64_t> GivesWayTo(const Claim& newcomer) const;
  // Queues a sequence of `n_prompt` > 0 tokens.
  // Errors: kResourceExhausted if max_waiting sequences wait already, or the
  // claim's tenant or peer has too many without a slot, unless it is kAdmitted.
  // Without memory (std::bad_alloc), nothing changes.
  absl::Status Add(int64_t id, int64_t n_prompt, const Claim& claim = {},
                   Waits how = Waits::kNew);

  // Runs a sequence at once in a slot that was kept for it. Without memory
  // (std::bad_alloc), nothing changes.
  void Resume(const Resumption& resumption);

  // Moves the limit of a running sequence after tokens of it have left.
  void SetLimit(int64_t id, int64_t limit);
  // Begins the slice of a running sequence that still has prompt rows. If the
  // sequence loses its slot, it continues from here after it has computed at
  // most one context again.
  void BeginSlice(int64_t id);
  // Allows the next step up to `n` guessed rows behind the newest row of a
  // running sequence, if it decodes and the step has room.
  void SetDraft(int64_t id, int64_t n);
  // Takes back the last `n` rows of a running sequence's last step.
  void Reject(int64_t id, int64_t n);
  // Makes a running sequence start again with `n_prompt` tokens.
  void Restart(int64_t id, int64_t n_prompt, int64_t limit);

  // Gives free slots to waiting sequences. It calls `begin` for each of them.
  // `begin` returns the state of the slot, or nullopt if the sequence must
  // wait; then all others wait too.
  void Admit(
      absl::FunctionRef<std::optional<Admission>(int64_t id, int64_t slot)>
          begin);
  // Takes a running sequence's slot. The sequence waits before all sequences of
  // its tenant and priority that have not run yet, and begins again with
  // `n_prompt` tokens. A parked sequence begins to wait when it is unparked.
  void Preempt(int64_t id, int64_t n_prompt);
  // Returns the sequence whose slot must be taken, because its slice has ended
  // and another tenant has waited for too long; nullopt if there is none.
  // `is_exact` tells whether a sequence can begin again without any loss. Call
  // it after Admit.
  std::optional<int64_t> WhoseSliceEnds(
      absl::FunctionRef<bool(int64_t id)> is_exact) const;
  // Takes a running sequence's slot. The sequence waits behind the others, and
  // begins again with `n_prompt` tokens. A parked sequence begins to wait when
  // it is unparked.
  void Yield(int64_t id, int64_t n_prompt);
  // Returns the rows of the next step, with at most `max_prompt_rows` prompt
  // rows; empty if nothing can run. Only sequences that Admit began have rows.
  // The rows count as computed from the next call on.
  std::vector<ScheduledRows> NextStep(int64_t max_prompt_rows = kNoLimit) {
    std::vector<ScheduledRows> step;
    NextStep([max_prompt_rows](const PromptPlace&) { return max_prompt_rows; },
             step);
    return step;
  }
  // Sets `step` to the rows of the next step, in its existing memory.
  // `most_prompt_rows` returns the most prompt rows of a step whose prompt rows
  // begin at a place. Prompts at several places each use a part of the step's
  // room.
  using MostPromptRows = absl::FunctionRef<int64_t(const PromptPlace& place)>;
  void NextStep(MostPromptRows most_prompt_rows,
                std::vector<ScheduledRows>& step);
  // The number of sequences with a row to decode in the next step.
  int64_t Decoding() const;

  // A parked sequence keeps its slot until others need it, but has no rows. A
  // parked sequence without a slot waits for one only after it is unparked.
  void Park(int64_t id);
  void Unpark(int64_t id);
  // Ends a sequence, waiting or running, and frees its slot.
  void Remove(int64_t id) { Remove(id, SlotFate::kFreed); }
  // Ends a sequence, but keeps its slot until FreeSlot or Resume.
  void RemoveKeepingSlot(int64_t id) { Remove(id, SlotFate::kKept); }
  void FreeSlot(int64_t slot) { free_slots_.push_back(slot); }

  // True for a running sequence that is parked.
  bool IsParked(int64_t id) const;
  // The slot of a running sequence; nullopt for one that does not run.
  std::optional<int64_t> SlotOf(int64_t id) const;
  // Calls `visit` for the running sequences, in order of admission.
  void ForRunning(
      absl::FunctionRef<void(int64_t id, int64_t slot)> visit) const;
  // Waiting sequences, including those that lost their slot.
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  // True if any waiting sequence would take a slot now.
  bool HasNext() const { return queue_.size() > 0; }
  int64_t running() const { return static_cast<int64_t>(running_.size()); }

 private:
  struct Sequence {
    int64_t id;
    int64_t n_prompt;
    int64_t limit = kNoLimit;  // the sequence runs while n_computed is below
    FairQueue::Party* party = nullptr;
    // The step at which it began to wait, or to run. When a running sequence
    // has computed its prompt, this is set again: otherwise computing the
    // prompt again could use the whole slice.
    int64_t since = 0;
    bool has_prompt = false;
    int64_t n_slice_rows = 0;  // computed since `since`, while it runs
    int64_t parked_since = 0;
    int64_t slot = -1;
    int64_t n_computed = 0;  // rows scheduled so far
    int64_t n_draft = 0;     // guessed tokens of the next step
    int64_t last_turn = 0;   // when its last rows were taken
    bool is_parked = false;
    int64_t n_paid = 0;  // prompt rows that are paid already
    bool has_run = false;

    bool CanRun() const { return !is_parked && n_computed < limit; }
    bool IsDecoding() const { return n_computed >= n_prompt; }
  };

  // Whether a tenant or a peer has as many requests without a slot as it may
  // have.
  bool IsAtLimit(const FairQueue::WithoutSlot& own) const {
    return own.of_tenant >= max_waiting_ ||
           own.of_peer >= kMostQueuesOfPeer * max_waiting_;
  }
  enum class SlotFate { kFreed, kKept };
  void Remove(int64_t id, SlotFate fate);
  // The running sequence of this id, or null.
  Sequence* Running(int64_t id);
  // The running or waiting sequence of this id, or null.
  Sequence* Find(int64_t id);
  bool IsIdle(const Sequence& s) const {
    const int64_t since = std::max(s.since, s.parked_since);
    return s.is_parked && n_steps_ - since >= kMostParked;
  }
  // Takes a running sequence's slot, and makes the sequence wait.
  void Withdraw(int64_t id, int64_t n_prompt);
  // The parts of NextStep: sets `decoding_` and `prefilling_`, then takes their
  // rows.
  void FindRunnable();
  void TakeDecodingRows(std::vector<ScheduledRows>& step);
  void TakePromptRows(MostPromptRows most_prompt_rows,
                      std::vector<ScheduledRows>& step);
  // The place of a prompt's first row in the next step.
  PromptPlace PlaceOf(const Sequence& prompt) const;
  // Appends rows of one sequence to the step.
  struct Rows {
    int64_t n_known;
    int64_t n_draft;
  };
  void Take(Sequence& s, const Rows& rows, std::vector<ScheduledRows>& step);
  // Inserts a running sequence into `prefilling_`, by its turn.
  void AddPrefilling(Sequence& sequence);

  int64_t n_rows_;
  int64_t max_waiting_;
  int64_t n_ctx_;
  int64_t n_turns_ = 0;
  int64_t n_steps_ = 0;
  std::vector<int64_t> free_slots_;      // the next one to use last
  FairQueue queue_;                      // waiting ids, unless parked
  std::map<int64_t, Sequence> waiting_;  // by id
  std::deque<Sequence> running_;         // in order of admission
  // Scratch of NextStep. Both are in the order of their turns.
  std::vector<Sequence*> decoding_;
  std::vector<Sequence*> prefilling_;
  int64_t rows_left_ = 0;  // rows left in the step that NextStep makes
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_SCHEDULING_SCHEDULER_H_
