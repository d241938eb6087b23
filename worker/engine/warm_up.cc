#include "worker/engine/warm_up.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/status_macros.h"

namespace plimsoll::worker {
namespace {

// A step of `n_rows` decoding rows. Each sequence has its first token and up to
// `n_draft` guesses.
StepBatch FirstTokens(int64_t n_rows, int64_t n_draft) {
  StepBatch step;
  step.only_decodes = true;
  for (int64_t row = 0; row < n_rows; ++row) {
    const int64_t position = row % (1 + n_draft);
    if (position == 0) {
      step.sequences.push_back({.slot = std::ssize(step.sequences),
                                .first_row = row,
                                .n_rows = 0,
                                .first_position = 0});
    }
    step.sequences.back().n_rows = 1 + position;
    step.sequences.back().n_draft = position;
    step.tokens.push_back(0);
    step.positions.push_back(position);
    step.prefix_positions.push_back(position);
    step.sampled_rows.push_back(static_cast<int32_t>(row));
  }
  return step;
}

}  // namespace

absl::Status WarmUp::Run() {
  RETURN_IF_ERROR(RunPrompt());
  const int64_t n_draft = plan_.options.n_draft;
  int64_t n_slots = 0;
  for (; n_slots < plan_.options.n_slots; ++n_slots) {
    cache_.Begin(n_slots, /*prefix_tokens=*/0);
    // Slots that share pages may have none left for the last ones, which do not
    // decode beside the others then.
    if (!cache_.Extend(n_slots, 1 + n_draft).ok()) break;
  }
  absl::Status status = RunDecoding(n_slots);
  for (int64_t slot = 0; slot < plan_.options.n_slots; ++slot) {
    cache_.Clear(slot);
  }
  return status;
}

absl::Status WarmUp::RunDecoding(int64_t n_slots) {
  constexpr int64_t kMostSequences = 16;
  if (n_slots == 0) return absl::OkStatus();
  const int64_t n_draft = plan_.options.n_draft;
  const int64_t most = std::min(n_slots, plan_.n_rows);
  // Steps of different kinds come first, so that all kinds have room.
  if (n_draft > 0) {
    const int64_t n_rows = std::min(n_slots * (1 + n_draft), plan_.n_rows);
    RETURN_IF_ERROR(RunSteps(StepRowsUpTo(n_rows), n_draft));
  }
  std::vector<int64_t> rows = StepRowsUpTo(most);
  for (int64_t n = 1; n <= std::min(most, kMostSequences); ++n) {
    if (std::ranges::count(rows, n) == 0) rows.push_back(n);
  }
  return RunSteps(rows, /*n_draft=*/0);
}

absl::Status WarmUp::RunSteps(std::span<const int64_t> row_counts,
                              int64_t n_draft) {
  for (const int64_t n_rows : row_counts) {
    RETURN_IF_ERROR(Step(FirstTokens(n_rows, n_draft)));
  }
  return absl::OkStatus();
}

absl::Status WarmUp::Step(StepBatch step) {
  step.keeps_all_rows = mtp_ != nullptr;
  RETURN_IF_ERROR(model_.Step(step));
  if (mtp_ == nullptr) return absl::OkStatus();
  step.only_decodes = false;
  step.sampled_rows.resize(1);
  for (SequenceRows& rows : step.sequences) rows.n_draft = 0;
  for (size_t row = 0; row < step.tokens.size(); ++row) {
    step.model_rows.push_back(static_cast<int32_t>(row));
  }
  return mtp_->Step(step);
}

std::vector<int64_t> WarmUp::StepRowsUpTo(int64_t most) const {
  std::vector<int64_t> rows = {most};
  for (const Stage& stage : stages_) {
    for (const int64_t n : stage.backend->Device().step_rows) {
      if (n < most) rows.push_back(n);
    }
  }
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

// A device sets local memory aside when it first runs a kernel that needs more
// of it than any kernel before. The prompt's kernels need most.
absl::Status WarmUp::RunPrompt() {
  constexpr int64_t kRows = 128;  // from here on a prompt uses all its kernels
  const int64_t n_rows = std::min({plan_.n_rows, plan_.n_ctx, kRows});
  StepBatch step;
  step.sequences.push_back({.slot = 0,
                            .first_row = 0,
                            .n_rows = n_rows,
                            .first_position = 0,
                            .is_prompt = true});
  for (int64_t row = 0; row < n_rows; ++row) {
    step.tokens.push_back(0);
    step.positions.push_back(row);
    step.prefix_positions.push_back(row);
  }
  step.sampled_rows.push_back(static_cast<int32_t>(n_rows - 1));
  cache_.Begin(/*slot=*/0, /*prefix_tokens=*/0);
  absl::Status status = cache_.Extend(/*slot=*/0, n_rows);
  if (status.ok()) status = Step(std::move(step));
  cache_.Clear(/*slot=*/0);
  return status;
}

}  // namespace plimsoll::worker
