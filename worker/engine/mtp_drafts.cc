#include "worker/engine/mtp_drafts.h"

#include <algorithm>
#include <cstddef>

#include "base/status_macros.h"

namespace plimsoll::worker {

MtpDrafts::MtpDrafts(const EngineResources& resources)
    : head_(*resources.mtp),
      cache_(*resources.cache),
      backend_(resources.backend()),
      vocab_size_(resources.shape.vocab_size) {
  const auto n_slots = static_cast<size_t>(resources.plan().options.n_slots);
  const auto n_rows = static_cast<size_t>(resources.plan().n_rows);
  batch_.tokens.reserve(n_rows);
  batch_.positions.reserve(n_rows);
  batch_.prefix_positions.reserve(n_rows);
  batch_.model_rows.reserve(n_rows);
  batch_.sequences.reserve(n_slots);
  batch_.sampled_rows.reserve(n_slots);
  guessers_.reserve(n_slots);
  chained_.reserve(n_slots);
  values_.resize(n_slots);
  ids_.resize(n_slots);
  log_sum_exp_.resize(n_slots);
}

absl::Status MtpDrafts::Run(const ScheduledStep& step, const StepBatch& batch) {
  guessers_.clear();
  chained_.clear();
  BuildBatch(step, batch);
  if (batch_.tokens.empty()) return absl::OkStatus();
  absl::Status status = StepAndGuess();
  for (int64_t n = 2; status.ok() && !guessers_.empty(); ++n) {
    status = BuildNext(n);
    if (!status.ok() || batch_.tokens.empty()) break;
    status = StepAndGuess();
  }
  for (const Guesser& guesser : chained_) {
    cache_.Truncate(guesser.slot, guesser.next_position);
  }
  return status;
}

void MtpDrafts::ClearBatch() {
  batch_.tokens.clear();
  batch_.positions.clear();
  batch_.prefix_positions.clear();
  batch_.has_rolled_prefix = false;
  batch_.model_rows.clear();
  batch_.sequences.clear();
  batch_.sampled_rows.clear();
}

void MtpDrafts::BuildBatch(const ScheduledStep& step, const StepBatch& batch) {
  ClearBatch();
  for (size_t i = 0; i < step.rows.size(); ++i) {
    AppendRows(step.rows[i], *step.sequences[i], batch.sequences[i].first_row);
  }
}

void MtpDrafts::AppendRows(const ScheduledRows& rows, Sequence& sequence,
                           int64_t first_row) {
  const TokenHistory& history = sequence.history();
  // The token after a row may be missing if its draw failed.
  const int64_t n_rows =
      std::min(rows.n_rows - rows.n_rejected,
               history.n_positions() - 1 - rows.first_position);
  if (n_rows <= 0) return;
  batch_.sequences.push_back(
      {.slot = rows.slot,
       .first_row = static_cast<int64_t>(batch_.tokens.size()),
       .n_rows = n_rows,
       .first_position = rows.first_position,
       .is_prompt = !rows.is_decoding});
  for (int64_t i = 0; i < n_rows; ++i) {
    const int64_t position = rows.first_position + i;
    AppendRow(rows.slot, {.token = history.TokenAt(position + 1),
                          .position = position,
                          .model_row = first_row + i});
  }
  if (!rows.samples || sequence.end()) return;
  // No guess may need a page of its own.
  const int64_t n_wanted =
      std::min(sequence.MostDrafted(), cache_.RoomAfterNext(rows.slot));
  if (n_wanted <= 0) return;
  batch_.sampled_rows.push_back(static_cast<int32_t>(batch_.tokens.size()) - 1);
  guessers_.push_back({.sequence = &sequence,
                       .slot = rows.slot,
                       .next_position = rows.first_position + n_rows,
                       .n_wanted = n_wanted});
  sequence.ClearPredicted();
}

absl::Status MtpDrafts::BuildNext(int64_t n) {
  ClearBatch();
  size_t n_kept = 0;
  for (size_t i = 0; i < guessers_.size(); ++i) {
    const Guesser guesser = guessers_[i];
    const int64_t position = guesser.next_position + n - 2;
    if (guesser.n_wanted < n ||
        cache_.MissingPages(guesser.slot, position + 1) > 0) {
      continue;
    }
    RETURN_IF_ERROR(cache_.Extend(guesser.slot, position + 1));
    if (n == 2) chained_.push_back(guesser);
    const auto row = static_cast<int32_t>(batch_.tokens.size());
    batch_.sequences.push_back({.slot = guesser.slot,
                                .first_row = row,
                                .n_rows = 1,
                                .first_position = position});
    batch_.sampled_rows.push_back(row);
    AppendRow(guesser.slot, {.token = ids_[i],
                             .position = position,
                             .model_row = static_cast<int64_t>(i)});
    guessers_[n_kept++] = guesser;
  }
  guessers_.resize(n_kept);
  return absl::OkStatus();
}

void MtpDrafts::AppendRow(int64_t slot, const HeadRow& row) {
  batch_.has_rolled_prefix |= cache_.HasRolledPrefix(slot);
  batch_.tokens.push_back(row.token);
  batch_.positions.push_back(row.position);
  batch_.prefix_positions.push_back(row.position - cache_.Evicted(slot));
  batch_.model_rows.push_back(static_cast<int32_t>(row.model_row));
}

absl::Status MtpDrafts::StepAndGuess() {
  RETURN_IF_ERROR(head_.Step(batch_));
  if (guessers_.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(
      backend_.TopK({.logits = head_.Logits(),
                     .n_rows = static_cast<int64_t>(guessers_.size()),
                     .n = vocab_size_,
                     .k = 1,
                     .values = values_.data(),
                     .ids = ids_.data(),
                     .log_sum_exp = log_sum_exp_.data()}));
  for (size_t i = 0; i < guessers_.size(); ++i) {
    guessers_[i].sequence->AddPredicted(ids_[i]);
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::worker
