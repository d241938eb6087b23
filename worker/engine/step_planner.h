// What changes between two steps: who gets a slot or loses one, whose context
// rolls, what is guessed, and which rows the next step has.
#ifndef PLIMSOLL_WORKER_ENGINE_STEP_PLANNER_H_
#define PLIMSOLL_WORKER_ENGINE_STEP_PLANNER_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "worker/engine/contexts.h"
#include "worker/engine/drafts.h"
#include "worker/engine/engine_options.h"
#include "worker/engine/engine_resources.h"
#include "worker/engine/scheduled_step.h"
#include "worker/engine/sequence.h"
#include "worker/engine/slot_pages.h"
#include "worker/engine/step_counters.h"
#include "worker/engine/stream_book.h"
#include "worker/scheduling/prompt_budget.h"
#include "worker/scheduling/scheduler.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

// Applies the decisions of the book's scheduler to the contexts. Owned by the
// engine, used from the step thread only. It takes no lock: the caller holds
// the lock of the book that it passes.
class StepPlanner {
 public:
  // The engine's objects that a plan works on. They outlive the planner.
  struct Tools {
    EngineResources& resources;
    Contexts& contexts;
    Drafts& drafts;
    StepCounters& counters;
    Preemption preemption;
    PromptBudget::Shares prompt_shares;
  };
  explicit StepPlanner(const Tools& tools);

  // Sets `step`, which holds the step before, to the rows of the next step. It
  // is empty if nothing can run.
  void PlanStep(StreamBook& book, absl::Time now, ScheduledStep& step);
  // Notes how long a step took, for the next steps' prompt rows.
  void Record(const ScheduledStep& step, absl::Duration duration);

  // Parks a stream whose reader is behind, or unparks one. A parked stream gets
  // no rows.
  static void Park(StreamBook& book, int64_t id) { book.scheduler().Park(id); }
  static void Unpark(StreamBook& book, int64_t id) {
    book.scheduler().Unpark(id);
  }
  // Gives an ended stream's context back to its session, or its slot to whoever
  // is next.
  void ReleaseSlot(StreamBook& book, Sequence& sequence, absl::Time now);

 private:
  // The parts of PlanStep, in order.
  void RejectDrafts(StreamBook& book, const ScheduledStep& before);
  void FreeSessionSlots(StreamBook& book, absl::Time now);
  // Gives free slots to streams that wait, and slots of others once they have
  // waited for too long.
  void Admit(StreamBook& book);
  void KeepSnapshots(StreamBook& book);
  void RollFull(StreamBook& book);
  void GuessTokens(StreamBook& book);
  // Makes the newest sequences begin again later if pages run out.
  void FreePages(StreamBook& book);
  void Schedule(StreamBook& book, ScheduledStep& step);

  // Begins a sequence in an empty slot; nullopt if it cannot begin now.
  std::optional<Admission> Begin(StreamBook& book, int64_t id, int64_t slot);
  // Takes the slot of an idle session, or of a sequence that SequenceToRemove
  // chooses. Returns false if there is none to take.
  bool FreeSlotForNext(StreamBook& book);
  // The sequence whose slice ends; without preemption one that has ended and
  // waits for its reader only. Absent if there is none.
  std::optional<int64_t> SequenceToRemove(StreamBook& book) const;
  // Adds up the pages that all taken slots claim.
  void CountClaims(StreamBook& book);
  // Evicts tokens of a full context, as often as it takes.
  void Roll(StreamBook& book, Sequence& sequence, int64_t slot);

  const Tokenizer& tokenizer_;
  Contexts& contexts_;
  Drafts& drafts_;
  StepCounters& counters_;
  const Preemption preemption_;
  SlotPages pages_;
  PromptBudget prompt_budget_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_STEP_PLANNER_H_
