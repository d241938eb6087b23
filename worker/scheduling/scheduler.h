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
  bool samples;              // the last row's logits are wanted
  bool is_decoding = false;  // the first row is a token that was generated
  int64_t n_draft = 0;       // guessed rows at the end, all of them sampled
  int64_t n_rejected = 0;    // guessed rows that were wrong: see Reject
  // These are a prompt's rows, and a stream of another tenant decodes.
  bool is_beside_others = false;
};

// The place of a prompt's next rows.
struct PromptPlace {
  int64_t position = 0;           // position of the first row
  bool is_beside_others = false;  // like ScheduledRows::is_beside_others
};

// The state with which a sequence begins in its slot.
struct Admission {
  int64_t n_computed;  // rows that are there already, fewer than the prompt has
  // Rows at positions of `limit` and beyond are not scheduled: the context is
  // full there.
  int64_t limit;
};

// A sequence that goes on in the slot that holds its context already.
struct Resumption {
  int64_t id;
  int64_t slot;
  int64_t n_computed;  // rows that the slot holds
  int64_t n_prompt;
  int64_t limit;  // like Admission::limit
  Claim claim = {};
};

// Decides who has a slot and which rows are computed next. FairQueue chooses
// who gets a slot next, and counts the computed tokens. Every step first takes
// one row of each decoding sequence, and where not all fit, of those that have
// waited longest. Prompt rows follow, until the step is full or has as many as
// it may: first those of the peer, and of its tenant, whose last rows were
// longest ago, and within a tenant in order of admission. If decoding would
// take every row, the first prompt takes turns with it. Not thread-safe.
class Scheduler {
 public:
  // After a peer's next request has waited for this many steps, a sequence of a
  // tenant with more slots gives up its own,
  static constexpr int64_t kMostWaited = 64;
  // if it has had the slot for at least kLeastSlice steps, and one more for
  // each kRowsOfSlice rows that it will have to compute again.
  // A prompt that is longer than its context gives it up after n_ctx rows too,
  // because its steps are the longest ones.
  static constexpr int64_t kLeastSlice = 128;
  static constexpr int64_t kRowsOfSlice = 16;
  // A sequence that cannot begin again as it was gives its slot up only after
  // another has waited for this many steps.
  static constexpr int64_t kMostWaitedOfInexact = 256;
  // A sequence that has been parked for this many steps does not use its slot.
  // It gives the slot up to another tenant, however long that one has waited.
  static constexpr int64_t kMostParked = 16;
  // A prompt is charged at most this much when it gets its slot, and the rest
  // as it is computed. Newcomers start at the level of a party that has paid
  // this, so parties that wait already are at most this far behind them.
  static constexpr int64_t kMostInAdvance = 256;

  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  // A tenant has at most max_waiting requests without a slot, including those
  // that lost it while their readers were behind. A peer has at most this many
  // times as many.
  static constexpr int64_t kMostQueuesOfPeer = 4;

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

  // Makes room in a full queue for a newcomer, if a tenant with more of the
  // queue has a request that gives way (FairQueue::GivesWay). That request is
  // removed and returned. Call it before Add.
  std::optional<int64_t> GiveWayTo(const Claim& newcomer);
  // Queues a sequence of `n_prompt` > 0 tokens.
  // Errors: kResourceExhausted if max_waiting sequences wait already, or the
  // claim's tenant or peer has too many without a slot, unless it is kAdmitted.
  absl::Status Add(int64_t id, int64_t n_prompt, const Claim& claim = {},
                   Waits how = Waits::kNew);

  // Runs a sequence at once in a slot that was kept for it.
  void Resume(const Resumption& resumption);

  // Moves the limit of a running sequence, as tokens of it have left.
  void SetLimit(int64_t id, int64_t limit);
  // The slice of a running sequence begins, though it has prompt rows left.
  // If it loses its slot, it goes on from here after it has computed at most a
  // context again.
  void BeginSlice(int64_t id);
  // Allows the next step up to `n` guessed rows behind the newest row of a
  // running sequence, if it decodes and the step has room.
  void SetDraft(int64_t id, int64_t n);
  // Takes back the last `n` rows of a running sequence's last step.
  void Reject(int64_t id, int64_t n);
  // Makes a running sequence start over, as one with `n_prompt` tokens.
  void Restart(int64_t id, int64_t n_prompt, int64_t limit);

  // Gives free slots to those that wait. It calls `begin` for each of them,
  // which returns what the slot holds already, or nullopt if the sequence must
  // wait; then all others wait, too.
  void Admit(
      absl::FunctionRef<std::optional<Admission>(int64_t id, int64_t slot)>
          begin);
  // Takes a running sequence's slot. The sequence waits before all of its
  // tenant and priority that have not run yet, and begins again as one with
  // `n_prompt` tokens. If it is parked, it waits from when it is unparked.
  void Preempt(int64_t id, int64_t n_prompt);
  // The sequence whose slot is to be taken, because it has had it for long
  // enough and another tenant has waited for too long; nullopt if there is
  // none. `is_exact` says whether a sequence can begin again without any loss.
  // Call it after Admit.
  std::optional<int64_t> WhoseSliceEnds(
      absl::FunctionRef<bool(int64_t id)> is_exact) const;
  // Takes a running sequence's slot. The sequence waits as others do, or if it
  // is parked, from when it is unparked, and begins again as one with
  // `n_prompt` tokens.
  void Yield(int64_t id, int64_t n_prompt);
  // The rows of the next step, at most `max_prompt_rows` of them of prompts;
  // empty if nothing can run. Only sequences that Admit began have rows. The
  // rows count as computed from the next call on.
  std::vector<ScheduledRows> NextStep(int64_t max_prompt_rows = kNoLimit) {
    std::vector<ScheduledRows> step;
    NextStep([max_prompt_rows](const PromptPlace&) { return max_prompt_rows; },
             step);
    return step;
  }
  // Sets `step` to the rows of the next step, in the memory that it has.
  // `most_prompt_rows` says how many prompt rows a step may have if they begin
  // at a place. Prompts at several places each use up their part of the step's
  // room.
  using MostPromptRows = absl::FunctionRef<int64_t(const PromptPlace& place)>;
  void NextStep(MostPromptRows most_prompt_rows,
                std::vector<ScheduledRows>& step);
  // How many sequences have a row to decode in the next step.
  int64_t Decoding() const;

  // A parked sequence keeps its slot until others need it, but has no rows. One
  // that lost its slot does not wait for another one until it is unparked.
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
  // Waiting sequences, those included that lost their slot.
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  // True if any of these would take a slot now.
  bool HasNext() const { return queue_.size() > 0; }
  int64_t running() const { return static_cast<int64_t>(running_.size()); }

 private:
  struct Sequence {
    int64_t id;
    int64_t n_prompt;
    int64_t limit = kNoLimit;  // it runs while n_computed is below
    FairQueue::Party* party = nullptr;
    // The step at which it began to wait, or to run. For a running sequence it
    // moves on when the prompt is computed: otherwise computing the prompt
    // again would take up the whole slice.
    int64_t since = 0;
    bool has_prompt = false;
    int64_t n_slice_rows = 0;  // computed since `since`, while it runs
    int64_t parked_since = 0;
    int64_t slot = -1;
    int64_t n_computed = 0;  // rows scheduled so far
    int64_t n_draft = 0;     // guessed tokens of the next step
    int64_t last_turn = 0;   // when rows of it were last taken
    bool is_parked = false;
    int64_t n_paid = 0;  // prompt rows that cost its tenant nothing more
    bool has_run = false;

    bool CanRun() const { return !is_parked && n_computed < limit; }
    bool IsDecoding() const { return n_computed >= n_prompt; }
  };

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
  // Where a prompt goes on in the next step.
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
