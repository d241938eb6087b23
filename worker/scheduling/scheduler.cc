#include "worker/scheduling/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace plimsoll::worker {

std::optional<int64_t> Scheduler::GivesWayTo(const Claim& newcomer) const {
  if (queue_.limited() < max_waiting_) return std::nullopt;
  const std::optional<int64_t> leaver = queue_.GivesWay(newcomer);
  if (!leaver) return std::nullopt;
  FairQueue::WithoutSlot own = queue_.CountWithoutSlot(newcomer);
  if (queue_.IsOfPeer(*leaver, newcomer.peer)) --own.of_peer;
  return IsAtLimit(own) ? std::nullopt : leaver;
}

absl::Status Scheduler::Add(int64_t id, int64_t n_prompt, const Claim& claim,
                            Waits how) {
  if (how != Waits::kAdmitted && queue_.limited() >= max_waiting_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the queue is full: ", queue_.limited(),
                     " requests wait already; try again later"));
  }
  const FairQueue::WithoutSlot own = queue_.CountWithoutSlot(claim);
  if (how != Waits::kAdmitted && IsAtLimit(own)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this tenant has ", own.of_tenant,
                     " requests without a slot, and its peer ", own.of_peer,
                     ", of which some wait for readers that are "
                     "behind: read their replies, or try again later"));
  }
  Sequence& added = waiting_[id];
  absl::Cleanup undo = [this, id] { waiting_.erase(id); };
  added = {.id = id,
           .n_prompt = n_prompt,
           .party = queue_.Push(id, claim, how),
           .since = n_steps_};
  std::move(undo).Cancel();
  return absl::OkStatus();
}

void Scheduler::Resume(const Resumption& resumption) {
  const int64_t n_prompt = resumption.n_prompt;
  const int64_t n_computed = resumption.n_computed;
  running_.push_back({.id = resumption.id,
                      .n_prompt = n_prompt,
                      .limit = resumption.limit,
                      .since = n_steps_,
                      .has_prompt = n_computed >= n_prompt,
                      .slot = resumption.slot,
                      .n_computed = n_computed});
  absl::Cleanup undo = [this] { running_.pop_back(); };
  running_.back().party = queue_.Run(resumption.id, resumption.claim);
  std::move(undo).Cancel();
}

Scheduler::Sequence* Scheduler::Running(int64_t id) {
  for (Sequence& s : running_) {
    if (s.id == id) return &s;
  }
  return nullptr;
}

Scheduler::Sequence* Scheduler::Find(int64_t id) {
  if (Sequence* s = Running(id)) return s;
  const auto found = waiting_.find(id);
  return found == waiting_.end() ? nullptr : &found->second;
}

void Scheduler::SetLimit(int64_t id, int64_t limit) {
  if (Sequence* s = Running(id)) s->limit = limit;
}

void Scheduler::BeginSlice(int64_t id) {
  Sequence* s = Running(id);
  if (s == nullptr || s->has_prompt) return;
  s->has_prompt = true;
  s->since = n_steps_;
  s->n_slice_rows = 0;
}

void Scheduler::SetDraft(int64_t id, int64_t n) {
  if (Sequence* s = Running(id)) s->n_draft = n;
}

void Scheduler::Reject(int64_t id, int64_t n) {
  if (Sequence* s = Running(id)) s->n_computed -= n;
}

void Scheduler::Restart(int64_t id, int64_t n_prompt, int64_t limit) {
  Sequence* s = Running(id);
  if (s == nullptr) return;
  s->n_prompt = n_prompt;
  s->n_paid = 0;
  s->n_computed = 0;
  s->limit = limit;
}

void Scheduler::Withdraw(int64_t id, int64_t n_prompt) {
  const auto found =
      std::find_if(running_.begin(), running_.end(),
                   [id](const Sequence& s) { return s.id == id; });
  free_slots_.push_back(found->slot);
  // Rows that it computes again cost nothing.
  const int64_t n_unpaid =
      std::max<int64_t>(found->n_prompt - found->n_computed - found->n_paid, 0);
  waiting_[id] = {.id = id,
                  .n_prompt = n_prompt,
                  .party = found->party,
                  .since = n_steps_,
                  .is_parked = found->is_parked,
                  .n_paid = n_prompt - n_unpaid,
                  .has_run = true};
  running_.erase(found);
  queue_.Stop(id);
}

void Scheduler::Preempt(int64_t id, int64_t n_prompt) {
  if (Running(id) == nullptr) return;
  Withdraw(id, n_prompt);
  if (!waiting_.at(id).is_parked) queue_.PushAgain(id, Place::kFirst);
}

void Scheduler::Yield(int64_t id, int64_t n_prompt) {
  if (Running(id) == nullptr) return;
  Withdraw(id, n_prompt);
  if (!waiting_.at(id).is_parked) queue_.PushAgain(id, Place::kLast);
}

std::optional<int64_t> Scheduler::WhoseSliceEnds(
    absl::FunctionRef<bool(int64_t id)> is_exact) const {
  const Sequence* leaves = nullptr;
  const auto find = [&](int64_t next) {
    const Sequence& waits = waiting_.at(next);
    const int64_t n_waited = n_steps_ - waits.since;
    const bool is_late = n_waited >= kMostWaited;
    for (const Sequence& s : running_) {
      // What has left a context is not computed again.
      const int64_t slice =
          kLeastSlice + std::min(s.n_computed, n_ctx_) / kRowsOfSlice;
      const bool has_had_slice = n_steps_ - s.since >= slice ||
                                 (!s.IsDecoding() && s.n_slice_rows >= n_ctx_);
      const bool may_leave = is_late && s.has_prompt && has_had_slice;
      if (!may_leave && !IsIdle(s)) continue;
      if (!FairQueue::HoldsMore(*s.party, *waits.party)) continue;
      // The longest-running sequence of the tenant with most slots leaves.
      const bool is_longer = leaves == nullptr ||
                             FairQueue::RunsMore(*s.party, *leaves->party) ||
                             (s.since < leaves->since &&
                              !FairQueue::RunsMore(*leaves->party, *s.party));
      if (!is_longer) continue;
      if (n_waited >= kMostWaitedOfInexact || is_exact(s.id)) leaves = &s;
    }
    return leaves != nullptr;
  };
  queue_.ForNextOfPeers(find);
  if (leaves == nullptr) return std::nullopt;
  return leaves->id;
}

void Scheduler::Admit(
    absl::FunctionRef<std::optional<Admission>(int64_t id, int64_t slot)>
        begin) {
  while (!free_slots_.empty()) {
    const std::optional<int64_t> id = queue_.Peek();
    if (!id) return;
    const int64_t slot = free_slots_.back();
    const std::optional<Admission> admission = begin(*id, slot);
    if (!admission) return;
    free_slots_.pop_back();
    Sequence sequence = waiting_.extract(*id).mapped();
    if (sequence.has_run) {
      queue_.Pop(0);
      sequence.n_paid =
          std::max<int64_t>(sequence.n_paid - admission->n_computed, 0);
    } else {
      sequence.n_paid =
          std::min(sequence.n_prompt - admission->n_computed, kMostInAdvance);
      queue_.Pop(sequence.n_paid);
    }
    sequence.has_run = true;
    sequence.since = n_steps_;
    sequence.has_prompt = false;
    sequence.slot = slot;
    sequence.n_computed = admission->n_computed;
    sequence.limit = admission->limit;
    running_.push_back(sequence);
  }
}

int64_t Scheduler::Decoding() const {
  const auto n = std::count_if(
      running_.begin(), running_.end(),
      [](const Sequence& s) { return s.CanRun() && s.IsDecoding(); });
  return std::min<int64_t>(n, n_rows_);
}

// The sequence goes behind those whose peers and tenants had their turn as long
// ago, or longer. There are few, and they come in order of admission.
void Scheduler::AddPrefilling(Sequence& sequence) {
  const auto turn = [](const Sequence* s) {
    const FairQueue::Party& tenant = *s->party->parent;
    return std::pair(tenant.parent->last_prompt_turn, tenant.last_prompt_turn);
  };
  const auto behind =
      std::upper_bound(prefilling_.begin(), prefilling_.end(), &sequence,
                       [turn](const Sequence* a, const Sequence* b) {
                         return turn(a) < turn(b);
                       });
  prefilling_.insert(behind, &sequence);
}

void Scheduler::NextStep(MostPromptRows most_prompt_rows,
                         std::vector<ScheduledRows>& step) {
  ++n_steps_;
  step.clear();
  FindRunnable();
  if (static_cast<int64_t>(decoding_.size()) >= n_rows_) {
    decoding_.resize(static_cast<size_t>(n_rows_));
    // Where decoding takes every row the first prompt takes turns with it.
    if (!prefilling_.empty() &&
        most_prompt_rows(PlaceOf(*prefilling_.front())) > 0 &&
        prefilling_.front()->last_turn < decoding_.back()->last_turn) {
      decoding_.pop_back();
    }
  }
  TakeDecodingRows(step);
  TakePromptRows(most_prompt_rows, step);
}

void Scheduler::FindRunnable() {
  decoding_.clear();
  prefilling_.clear();
  for (Sequence& s : running_) {
    if (!s.CanRun()) continue;
    if (s.IsDecoding()) {
      decoding_.push_back(&s);
    } else {
      AddPrefilling(s);
    }
  }
  // Matters only if there are more decoding sequences than rows.
  std::sort(decoding_.begin(), decoding_.end(),
            [](const Sequence* a, const Sequence* b) {
              return a->last_turn < b->last_turn;
            });
}

void Scheduler::Take(Sequence& s, const Rows& rows,
                     std::vector<ScheduledRows>& step) {
  const int64_t n = rows.n_known + rows.n_draft;
  step.push_back({.id = s.id,
                  .slot = s.slot,
                  .first_position = s.n_computed,
                  .n_rows = n,
                  .samples = s.n_computed + n >= s.n_prompt,
                  .is_decoding = s.IsDecoding(),
                  .n_draft = rows.n_draft});
  const int64_t n_paid = s.IsDecoding() ? 0 : std::min(s.n_paid, n);
  s.n_paid -= n_paid;
  if (n > n_paid) FairQueue::Charge(s.party, n - n_paid);
  s.n_computed += n;
  s.n_slice_rows += n;
  if (!s.has_prompt && s.IsDecoding()) {
    s.has_prompt = true;
    s.since = n_steps_;
    s.n_slice_rows = 0;
  }
  s.last_turn = ++n_turns_;
  rows_left_ -= n;
}

void Scheduler::TakeDecodingRows(std::vector<ScheduledRows>& step) {
  rows_left_ = n_rows_;
  // Guesses take only rows that are left over, so there are none while prompts
  // wait.
  int64_t left_for_drafts =
      prefilling_.empty() ? n_rows_ - std::ssize(decoding_) : 0;
  for (Sequence* s : decoding_) {
    const int64_t n_draft =
        std::min({s->n_draft, left_for_drafts, s->limit - s->n_computed - 1});
    left_for_drafts -= n_draft;
    Take(*s, {.n_known = 1, .n_draft = n_draft}, step);
  }
  // A guess lasts for one step, whether the step had room for it or not.
  for (Sequence& s : running_) s.n_draft = 0;
}

PromptPlace Scheduler::PlaceOf(const Sequence& prompt) const {
  const bool is_beside_others = std::any_of(
      decoding_.begin(), decoding_.end(), [&prompt](const Sequence* s) {
        return s->party->parent != prompt.party->parent;
      });
  return {.position = prompt.n_computed, .is_beside_others = is_beside_others};
}

void Scheduler::TakePromptRows(MostPromptRows most_prompt_rows,
                               std::vector<ScheduledRows>& step) {
  double share_left = 1;  // the rest of what prompts may take
  for (Sequence* s : prefilling_) {
    const PromptPlace place = PlaceOf(*s);
    const auto most = static_cast<double>(most_prompt_rows(place));
    // A share that rounding made a little smaller is still a row.
    constexpr double kRounding = 1e-6;
    const auto n_may = static_cast<int64_t>(std::min(
        static_cast<double>(rows_left_), share_left * most + kRounding));
    if (n_may == 0) continue;
    const int64_t end = std::min(s->n_prompt, s->limit);
    const int64_t n = std::min(n_may, end - s->n_computed);
    share_left -= static_cast<double>(n) / most;
    Take(*s, {.n_known = n, .n_draft = 0}, step);
    step.back().is_beside_others = place.is_beside_others;
    FairQueue::Party& tenant = *s->party->parent;
    tenant.last_prompt_turn = n_turns_;
    tenant.parent->last_prompt_turn = n_turns_;
  }
}

void Scheduler::Park(int64_t id) {
  Sequence* s = Find(id);
  if (s == nullptr || s->is_parked) return;
  s->is_parked = true;
  s->parked_since = n_steps_;
}

void Scheduler::Unpark(int64_t id) {
  Sequence* s = Find(id);
  if (s == nullptr || !s->is_parked) return;
  s->is_parked = false;
  if (queue_.IsStopped(id)) queue_.PushAgain(id, Place::kLast);
}

bool Scheduler::IsParked(int64_t id) const {
  return std::any_of(running_.begin(), running_.end(), [id](const Sequence& s) {
    return s.id == id && s.is_parked;
  });
}

void Scheduler::Remove(int64_t id, SlotFate fate) {
  queue_.Remove(id);
  waiting_.erase(id);
  std::erase_if(running_, [this, id, fate](const Sequence& s) {
    if (s.id == id && fate == SlotFate::kFreed) free_slots_.push_back(s.slot);
    return s.id == id;
  });
}

std::optional<int64_t> Scheduler::SlotOf(int64_t id) const {
  for (const Sequence& s : running_) {
    if (s.id == id) return s.slot;
  }
  return std::nullopt;
}

void Scheduler::ForRunning(
    absl::FunctionRef<void(int64_t id, int64_t slot)> visit) const {
  for (const Sequence& s : running_) visit(s.id, s.slot);
}

}  // namespace plimsoll::worker
