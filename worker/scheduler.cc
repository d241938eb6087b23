#include "worker/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace plimsoll::worker {

absl::Status Scheduler::Add(int64_t id, int64_t n_prompt, const Claim& claim) {
  if (queue_.size() >= max_waiting_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the queue is full: ", queue_.size(),
                     " requests wait already; try again later"));
  }
  queue_.Push(id, n_prompt, claim);
  waiting_[id] = {.id = id, .n_prompt = n_prompt, .tenant = claim.tenant};
  return absl::OkStatus();
}

void Scheduler::Resume(int64_t id, int64_t slot, int64_t n_computed,
                       int64_t n_prompt, int64_t limit, const Claim& claim) {
  running_.push_back({.id = id,
                      .n_prompt = n_prompt,
                      .limit = limit,
                      .tenant = claim.tenant,
                      .slot = slot,
                      .n_computed = n_computed});
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
  s->n_computed = 0;
  s->limit = limit;
}

void Scheduler::Preempt(int64_t id, int64_t n_prompt) {
  const auto found =
      std::find_if(running_.begin(), running_.end(),
                   [id](const Sequence& s) { return s.id == id; });
  if (found == running_.end()) return;
  free_slots_.push_back(found->slot);
  waiting_[id] = {.id = id,
                  .n_prompt = n_prompt,
                  .tenant = found->tenant,
                  .is_parked = found->is_parked};
  preempted_.insert(id);
  running_.erase(found);
}

void Scheduler::Admit(
    absl::FunctionRef<std::optional<Admission>(int64_t id, int64_t slot)>
        begin) {
  while (!free_slots_.empty()) {
    const std::optional<int64_t> id =
        preempted_.empty() ? queue_.Peek() : *preempted_.begin();
    if (!id) return;
    const int64_t slot = free_slots_.back();
    const std::optional<Admission> admission = begin(*id, slot);
    if (!admission) return;
    if (preempted_.erase(*id) == 0) queue_.Pop();
    free_slots_.pop_back();
    Sequence sequence = std::move(waiting_.extract(*id).mapped());
    sequence.slot = slot;
    sequence.n_computed = admission->n_computed;
    sequence.limit = admission->limit;
    running_.push_back(std::move(sequence));
  }
}

int64_t Scheduler::Decoding() const {
  const auto n = std::count_if(
      running_.begin(), running_.end(),
      [](const Sequence& s) { return s.CanRun() && s.IsDecoding(); });
  return std::min<int64_t>(n, n_rows_);
}

// Behind those whose tenants had their turn as long ago, or longer: there are
// few, and they come in order of admission.
void Scheduler::AddPrefilling(Sequence& sequence) {
  const int64_t turn = last_prompt_turn_[sequence.tenant];
  const auto behind =
      std::upper_bound(prefilling_.begin(), prefilling_.end(), turn,
                       [this](int64_t of, const Sequence* s) {
                         return of < last_prompt_turn_[s->tenant];
                       });
  prefilling_.insert(behind, &sequence);
}

void Scheduler::NextStep(int64_t max_prompt_rows,
                         std::vector<ScheduledRows>& step) {
  step.clear();
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

  int64_t left = n_rows_;
  const auto take = [&](Sequence& s, int64_t n, int64_t n_draft = 0) {
    n += n_draft;
    step.push_back({.id = s.id,
                    .slot = s.slot,
                    .first_position = s.n_computed,
                    .n_rows = n,
                    .samples = s.n_computed + n >= s.n_prompt,
                    .is_decoding = s.IsDecoding(),
                    .n_draft = n_draft});
    s.n_computed += n;
    s.last_turn = ++n_turns_;
    left -= n;
  };
  if (static_cast<int64_t>(decoding_.size()) >= n_rows_) {
    decoding_.resize(static_cast<size_t>(n_rows_));
    // Where decoding takes every row the first prompt takes turns with it.
    if (!prefilling_.empty() && max_prompt_rows > 0 &&
        prefilling_.front()->last_turn < decoding_.back()->last_turn) {
      decoding_.pop_back();
    }
  }
  // Guesses take what is left, but nothing from prompts.
  int64_t left_for_drafts =
      prefilling_.empty() ? left - std::ssize(decoding_) : 0;
  for (Sequence* s : decoding_) {
    const int64_t n_draft =
        std::min({s->n_draft, left_for_drafts, s->limit - s->n_computed - 1});
    left_for_drafts -= n_draft;
    take(*s, 1, n_draft);
  }
  // A guess is of one step, whether it was in it or not.
  for (Sequence& s : running_) s.n_draft = 0;
  left = std::min(left, max_prompt_rows);
  for (Sequence* s : prefilling_) {
    if (left == 0) return;
    const int64_t end = std::min(s->n_prompt, s->limit);
    take(*s, std::min(left, end - s->n_computed));
    last_prompt_turn_[s->tenant] = n_turns_;
  }
}

void Scheduler::Park(int64_t id) {
  if (Sequence* s = Find(id)) s->is_parked = true;
}

void Scheduler::Unpark(int64_t id) {
  if (Sequence* s = Find(id)) s->is_parked = false;
}

bool Scheduler::IsParked(int64_t id) const {
  return std::any_of(running_.begin(), running_.end(), [id](const Sequence& s) {
    return s.id == id && s.is_parked;
  });
}

void Scheduler::Remove(int64_t id, bool frees_slot) {
  if (preempted_.erase(id) == 0) queue_.Remove(id);
  waiting_.erase(id);
  std::erase_if(running_, [this, id, frees_slot](const Sequence& s) {
    if (s.id == id && frees_slot) free_slots_.push_back(s.slot);
    return s.id == id;
  });
  std::erase_if(last_prompt_turn_, [this](const auto& turn) {
    return std::none_of(
        running_.begin(), running_.end(),
        [&](const Sequence& s) { return s.tenant == turn.first; });
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
