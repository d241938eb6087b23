#include "worker/scheduler.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace plimsoll::worker {

absl::Status Scheduler::Add(int64_t id, int64_t n_prompt) {
  if (waiting() >= max_waiting_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the queue is full: ", waiting(),
                     " requests wait already; try again later"));
  }
  waiting_.push_back({.id = id, .n_prompt = n_prompt});
  return absl::OkStatus();
}

std::vector<ScheduledRows> Scheduler::NextStep() {
  while (!waiting_.empty() && !free_slots_.empty()) {
    Sequence sequence = waiting_.front();
    waiting_.pop_front();
    sequence.slot = free_slots_.back();
    free_slots_.pop_back();
    running_.push_back(sequence);
  }

  std::vector<ScheduledRows> step;
  int64_t left = n_rows_;
  const auto take = [&](Sequence& s, int64_t n) {
    step.push_back({.id = s.id,
                    .slot = s.slot,
                    .first_position = s.n_computed,
                    .n_rows = n,
                    .samples = s.n_computed + n >= s.n_prompt});
    s.n_computed += n;
    left -= n;
  };
  size_t served = 0;
  for (Sequence& s : running_) {
    if (left == 0) break;
    ++served;
    if (!s.is_parked && s.n_computed >= s.n_prompt) take(s, 1);
  }
  // More decoding sequences than rows: those left out come first next time.
  if (left == 0) {
    std::rotate(running_.begin(),
                running_.begin() + static_cast<ptrdiff_t>(served),
                running_.end());
    return step;
  }
  for (Sequence& s : running_) {
    if (left == 0) break;
    if (s.is_parked || s.n_computed >= s.n_prompt) continue;
    take(s, std::min(left, s.n_prompt - s.n_computed));
  }
  return step;
}

void Scheduler::Park(int64_t id) {
  for (Sequence& s : running_) {
    if (s.id == id) s.is_parked = true;
  }
}

void Scheduler::Unpark(int64_t id) {
  for (Sequence& s : running_) {
    if (s.id == id) s.is_parked = false;
  }
}

void Scheduler::Remove(int64_t id) {
  std::erase_if(waiting_, [id](const Sequence& s) { return s.id == id; });
  std::erase_if(running_, [this, id](const Sequence& s) {
    if (s.id == id) free_slots_.push_back(s.slot);
    return s.id == id;
  });
}

std::optional<int64_t> Scheduler::SlotOf(int64_t id) const {
  for (const Sequence& s : running_) {
    if (s.id == id) return s.slot;
  }
  return std::nullopt;
}

}  // namespace plimsoll::worker
