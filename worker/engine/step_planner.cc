#include "worker/engine/step_planner.h"

#include <algorithm>
#include <iterator>
#include <memory>

#include "worker/text/chat/session_chat.h"

namespace plimsoll::worker {

StepPlanner::StepPlanner(const Tools& tools)
    : tokenizer_(*tools.resources.tokenizer),
      contexts_(tools.contexts),
      drafts_(tools.drafts),
      counters_(tools.counters),
      preemption_(tools.preemption),
      pages_(tools.resources, tools.preemption),
      prompt_budget_(tools.resources.plan().options.n_slots,
                     tools.prompt_shares) {}

void StepPlanner::PlanStep(StreamBook& book, absl::Time now,
                           ScheduledStep& step) {
  RejectDrafts(book, step);
  FreeSessionSlots(book, now);
  Admit(book);
  KeepSnapshots(book);
  RollFull(book);
  GuessTokens(book);
  FreePages(book);
  Schedule(book, step);
}

void StepPlanner::RejectDrafts(StreamBook& book, const ScheduledStep& before) {
  for (const ScheduledRows& rows : before.rows) {
    book.scheduler().Reject(rows.id, rows.n_rejected);
  }
}

void StepPlanner::FreeSessionSlots(StreamBook& book, absl::Time now) {
  for (const int64_t slot : book.sessions().TakeFreedSlots(now)) {
    contexts_.Clear(slot);
    book.scheduler().FreeSlot(slot);
  }
}

void StepPlanner::Admit(StreamBook& book) {
  Scheduler& scheduler = book.scheduler();
  const auto begin = [&](int64_t id, int64_t slot) {
    return Begin(book, id, slot);
  };
  scheduler.Admit(begin);
  while (scheduler.HasNext() && FreeSlotForNext(book)) {
    scheduler.Admit(begin);
  }
}

std::optional<Admission> StepPlanner::Begin(StreamBook& book, int64_t id,
                                            int64_t slot) {
  Sequence& sequence = book.Get(id);
  if (pages_.is_scarce()) {
    CountClaims(book);
    if (!pages_.HasRoomFor(sequence, slot)) return std::nullopt;
  }
  return contexts_.Begin(sequence, slot);
}

bool StepPlanner::FreeSlotForNext(StreamBook& book) {
  Scheduler& scheduler = book.scheduler();
  // Nobody waits for a slot that a session keeps without using it.
  if (const std::optional<int64_t> slot = book.sessions().GiveUpSlot()) {
    contexts_.Clear(*slot);
    scheduler.FreeSlot(*slot);
    return true;
  }
  const std::optional<int64_t> id = SequenceToRemove(book);
  if (!id) return false;
  Sequence& sequence = book.Get(*id);
  const int64_t slot = *scheduler.SlotOf(*id);
  // Without room for a copy the context is computed again from the tokens that
  // are left. That may change bits, but the sequence must not keep its slot for
  // ever.
  const bool is_parked = contexts_.Park(sequence, slot);
  contexts_.Drop(sequence, slot);
  if (!is_parked) sequence.ForgetComputed();
  if (sequence.end()) {
    // The sequence waits for its reader only, and needs no slot for that.
    scheduler.Remove(*id);
  } else {
    scheduler.Yield(*id, sequence.history().n_positions());
    ++counters_.preemptions;
  }
  return true;
}

std::optional<int64_t> StepPlanner::SequenceToRemove(StreamBook& book) const {
  if (preemption_ == Preemption::kOn) {
    return book.scheduler().WhoseSliceEnds(
        [&](int64_t of) { return contexts_.CanLoseSlot(book.Get(of)); });
  }
  std::optional<int64_t> ended;
  book.scheduler().ForRunning([&](int64_t id, int64_t) {
    if (!ended && book.Get(id).end()) ended = id;
  });
  return ended;
}

void StepPlanner::KeepSnapshots(StreamBook& book) {
  if (!contexts_.CanKeepSnapshots()) return;
  for (const auto& [id, sequence] : book.sequences()) {
    if (sequence->snapshots_at().empty() || sequence->end()) continue;
    const std::optional<int64_t> slot = book.scheduler().SlotOf(id);
    if (!slot || !contexts_.KeepSnapshot(*sequence, *slot)) continue;
    book.scheduler().SetLimit(id, Contexts::RowLimit(*sequence));
  }
}

// A context rolls only when its next row is about to be computed: not if the
// sequence has ended, nor while its reader is behind, because output that is
// offered again must not change.
void StepPlanner::RollFull(StreamBook& book) {
  for (const auto& [id, sequence] : book.sequences()) {
    if (sequence->options().roll.policy != ContextPolicy::kRoll) continue;
    if (sequence->end() || sequence->HasOutput()) continue;
    const std::optional<int64_t> slot = book.scheduler().SlotOf(id);
    if (slot) Roll(book, *sequence, *slot);
  }
}

void StepPlanner::Roll(StreamBook& book, Sequence& sequence, int64_t slot) {
  while (contexts_.IsFull(sequence, slot)) {
    const RollMethod method = contexts_.Roll(sequence, slot);
    const int64_t limit = Contexts::RowLimit(sequence);
    if (method == RollMethod::kShift) {
      book.scheduler().SetLimit(sequence.id(), limit);
    } else {
      book.scheduler().Restart(sequence.id(), sequence.history().n_positions(),
                               limit);
    }
    // A prompt may be many times as long as the context.
    book.scheduler().BeginSlice(sequence.id());
  }
}

void StepPlanner::GuessTokens(StreamBook& book) {
  if (!drafts_.is_enabled()) return;
  for (const auto& [id, sequence] : book.sequences()) {
    sequence->SetDraft({});
    if (sequence->end() || sequence->HasOutput()) continue;
    const std::optional<int64_t> slot = book.scheduler().SlotOf(id);
    if (!slot) continue;
    drafts_.Guess(*sequence, *slot);
    if (sequence->draft().empty()) continue;
    book.scheduler().SetDraft(id, std::ssize(sequence->draft()));
  }
}

void StepPlanner::CountClaims(StreamBook& book) {
  pages_.ClearClaims();
  book.sessions().ForIdleSlots(
      [this](int64_t slot) { pages_.ClaimForSession(slot); });
  book.scheduler().ForRunning(
      [&](int64_t id, int64_t slot) { pages_.ClaimFor(book.Get(id), slot); });
}

void StepPlanner::FreePages(StreamBook& book) {
  if (!pages_.is_scarce()) return;
  CountClaims(book);
  while (const std::optional<int64_t> id = pages_.Victim()) {
    Sequence& sequence = book.Get(*id);
    contexts_.Drop(sequence, *book.scheduler().SlotOf(*id));
    book.scheduler().Preempt(*id, sequence.history().n_positions());
    ++counters_.preemptions;
    CountClaims(book);
  }
}

void StepPlanner::Schedule(StreamBook& book, ScheduledStep& step) {
  step.sequences.clear();
  counters_.kv_used_pages = contexts_.UsedPages();
  if (preemption_ == Preemption::kOff) {
    CountClaims(book);
    counters_.kv_reserved_pages = *pages_.ReservedPages();
  }
  const int64_t n_decoding = book.scheduler().Decoding();
  book.scheduler().NextStep(
      [this, n_decoding](const PromptPlace& place) {
        return prompt_budget_.Rows(n_decoding, place);
      },
      step.rows);
  for (const ScheduledRows& rows : step.rows) {
    step.sequences.push_back(&book.Get(rows.id));
  }
}

void StepPlanner::Record(const ScheduledStep& step, absl::Duration duration) {
  int64_t n_decoding = 0;
  int64_t n_prompt = 0;
  PromptPlace furthest;
  for (const ScheduledRows& rows : step.rows) {
    if (rows.is_decoding) {
      ++n_decoding;
      continue;
    }
    n_prompt += rows.n_rows;
    furthest.position = std::max(furthest.position, rows.first_position);
    furthest.is_beside_others |= rows.is_beside_others;
  }
  prompt_budget_.Record(n_decoding, n_prompt, duration, furthest);
}

void StepPlanner::ReleaseSlot(StreamBook& book, Sequence& sequence,
                              absl::Time now) {
  Scheduler& scheduler = book.scheduler();
  const std::optional<int64_t> slot = scheduler.SlotOf(sequence.id());
  const bool has_failed = sequence.end()->code() == absl::StatusCode::kInternal;
  contexts_.ForgetParked(sequence);
  Session* session =
      sequence.session() ? book.sessions().Get(*sequence.session()) : nullptr;
  if (slot && !has_failed) contexts_.Publish(sequence, *slot);
  const RenderedChat* rendered = sequence.options().rendered.get();
  if (session != nullptr) {
    session->is_busy = false;
    session->last_used = now;
  }
  if (session != nullptr && rendered != nullptr) {
    session->KeepReply(
        *rendered, ReadReply(rendered->reading, sequence.ReplyText(tokenizer_)),
        sequence.history().n_live());
  }
  if (session == nullptr || rendered != nullptr) {
    if (slot) contexts_.Clear(*slot);
    scheduler.Remove(sequence.id());
    return;
  }
  session->history = sequence.history();
  // The rows that a failed step left in the slot are not valid.
  if (slot && has_failed) {
    contexts_.Clear(*slot);
    session->history.Restart();
  }
  session->slot = slot;
  session->n_computed = slot ? contexts_.Length(*slot) : 0;
  session->n_evictions += sequence.n_evictions();
  scheduler.RemoveKeepingSlot(sequence.id());
}

}  // namespace plimsoll::worker
