#include "worker/engine/step_runner.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "worker/sampling/non_finite.h"
#include "worker/sampling/token_history.h"

namespace plimsoll::worker {

StepRunner::StepRunner(const Tools& tools)
    : tokenizer_(*tools.resources.tokenizer),
      cache_(*tools.resources.cache),
      model_(*tools.resources.model),
      backend_(tools.resources.backend()),
      contexts_(tools.contexts),
      drafts_(tools.drafts),
      counters_(tools.counters),
      clock_(tools.clock),
      n_ctx_(tools.resources.plan().n_ctx),
      sampler_(model_, backend_, tools.resources.shape.vocab_size,
               tools.resources.stages.back().plan->n_sampled),
      scorer_(model_, backend_, tools.resources.stages.back().plan->n_sampled,
              tools.resources.shape.vocab_size) {
  batch_.progress = &tools.progress;
}

absl::Status StepRunner::Run(ScheduledStep& step) {
  absl::Status status = Compute(step);
  if (absl::IsUnavailable(status)) return status;
  CountRows(step);
  if (status.ok()) return absl::OkStatus();
  // After any error it is not known what the step has written.
  for (Sequence* sequence : step.sequences) {
    sequence->End(absl::InternalError(status.message()));
  }
  return absl::OkStatus();
}

absl::Status StepRunner::Compute(ScheduledStep& step) {
  RETURN_IF_ERROR(BuildBatch(step));
  RETURN_IF_ERROR(model_.Step(batch_));
  RETURN_IF_ERROR(SampleRows(step));
  RETURN_IF_ERROR(ScorePrompts(step));
  // The head's rows take the place of the model's.
  RETURN_IF_ERROR(drafts_.Predict(step, batch_));
  // A step without sampled rows has not waited for its device yet.
  return backend_.Synchronize();
}

absl::Status StepRunner::BuildBatch(const ScheduledStep& step) {
  batch_.tokens.clear();
  batch_.positions.clear();
  batch_.prefix_positions.clear();
  batch_.has_rolled_prefix = false;
  batch_.sequences.clear();
  batch_.sampled_rows.clear();
  batch_.keeps_all_rows = drafts_.NeedsAllRows();
  batch_.only_decodes =
      std::ranges::all_of(step.rows, &ScheduledRows::is_decoding);
  draws_.clear();
  const absl::Time now = clock_();
  for (size_t i = 0; i < step.rows.size(); ++i) {
    step.sequences[i]->Started(now, n_ctx_);
    RETURN_IF_ERROR(AppendRows(step.rows[i], *step.sequences[i]));
  }
  batch_.top = sampler_.RequiredLogits(draws_, batch_.only_decodes
                                                   ? LogitsLater::kPossible
                                                   : LogitsLater::kImpossible);
  return absl::OkStatus();
}

absl::Status StepRunner::AppendRows(const ScheduledRows& rows,
                                    const Sequence& sequence) {
  RETURN_IF_ERROR(
      contexts_.Extend(sequence, rows.slot, rows.first_position + rows.n_rows));
  batch_.sequences.push_back(
      {.slot = rows.slot,
       .first_row = static_cast<int64_t>(batch_.tokens.size()),
       .n_rows = rows.n_rows,
       .first_position = rows.first_position,
       .n_draft = rows.n_draft,
       .is_prompt = !rows.is_decoding});
  const TokenHistory& history = sequence.history();
  const int64_t n_known = rows.n_rows - rows.n_draft;
  for (int64_t row = 0; row < rows.n_rows; ++row) {
    const int64_t position = rows.first_position + row;
    batch_.tokens.push_back(
        row < n_known ? history.TokenAt(position)
                      : sequence.draft()[static_cast<size_t>(row - n_known)]);
    batch_.positions.push_back(position);
    batch_.prefix_positions.push_back(position - cache_.Evicted(rows.slot));
  }
  batch_.has_rolled_prefix |= cache_.HasRolledPrefix(rows.slot);
  batch_.keeps_all_rows |= sequence.options().prompt_logprobs;
  if (!rows.samples) return absl::OkStatus();
  const auto end = static_cast<int32_t>(batch_.tokens.size());
  for (auto row = end - static_cast<int32_t>(1 + rows.n_draft); row < end;
       ++row) {
    batch_.sampled_rows.push_back(row);
    draws_.push_back(sequence.NextDraw());
  }
  return absl::OkStatus();
}

absl::Status StepRunner::SampleRows(ScheduledStep& step) {
  RETURN_IF_ERROR(sampler_.Begin(draws_, batch_.sampled_rows));
  int64_t first_sampled = 0;
  for (size_t i = 0; i < step.rows.size(); ++i) {
    ScheduledRows& rows = step.rows[i];
    if (!rows.samples) continue;
    RETURN_IF_ERROR(DrawTokens(rows, *step.sequences[i], first_sampled));
    first_sampled += 1 + rows.n_draft;
  }
  return absl::OkStatus();
}

absl::Status StepRunner::DrawTokens(ScheduledRows& rows, Sequence& sequence,
                                    int64_t first_sampled) {
  const std::vector<int32_t>& draft = sequence.draft();
  const bool is_first = sequence.n_generated() == 0;
  int64_t n_right = 0;
  for (int64_t i = 0; i <= rows.n_draft; ++i) {
    absl::StatusOr<TokenOutput> token = sampler_.Draw(
        sequence.NextDraw(), first_sampled + i, sequence.ReuseBuffer());
    if (!token.ok()) {
      const int64_t row = rows.n_rows - 1 - rows.n_draft + i;
      sequence.End(
          AtStep(token.status(), {.step = counters_.steps + 1,
                                  .position = rows.first_position + row}));
      return absl::OkStatus();
    }
    const int32_t id = token->id;
    sequence.Accept(*std::move(token), tokenizer_, n_ctx_, clock_());
    const bool is_guessed =
        i < rows.n_draft && draft[static_cast<size_t>(i)] == id;
    if (!is_guessed || sequence.end()) break;
    ++n_right;
  }
  if (rows.n_draft > 0) RETURN_IF_ERROR(KeepDrafts(rows, sequence, n_right));
  if (is_first) contexts_.Publish(sequence, rows.slot);
  return absl::OkStatus();
}

absl::Status StepRunner::KeepDrafts(ScheduledRows& rows, Sequence& sequence,
                                    int64_t n_right) {
  RETURN_IF_ERROR(drafts_.Keep({.slot = rows.slot,
                                .first_position = rows.first_position + 1,
                                .n_rows = rows.n_draft},
                               n_right));
  sequence.CountDrafts(rows.n_draft, n_right);
  rows.n_rejected = rows.n_draft - n_right;
  counters_.draft_tokens += rows.n_draft;
  counters_.accepted_draft_tokens += n_right;
  counters_.generated_tokens += n_right;
  return absl::OkStatus();
}

absl::Status StepRunner::ScorePrompts(const ScheduledStep& step) {
  for (size_t i = 0; i < step.sequences.size(); ++i) {
    Sequence* sequence = step.sequences[i];
    if (!sequence->options().prompt_logprobs) continue;
    scored_.rows.clear();
    scored_.targets.clear();
    sequence->AppendUnscored(batch_.sequences[i], scored_);
    scores_.clear();
    const absl::Status status = scorer_.Score(scored_, scores_);
    if (status.code() == absl::StatusCode::kInternal) {
      // The first row that has no score.
      const auto row = static_cast<size_t>(scored_.rows[scores_.size()]);
      sequence->End(AtStep(status, {.step = counters_.steps + 1,
                                    .position = batch_.positions[row]}));
      continue;  // the other sequences go on
    }
    RETURN_IF_ERROR(status);
    sequence->AddScores(scores_);
  }
  return absl::OkStatus();
}

void StepRunner::CountRows(const ScheduledStep& step) {
  counters_.kv_used_pages = contexts_.UsedPages();
  ++counters_.steps;
  for (const ScheduledRows& rows : step.rows) {
    const int64_t n_sampled = rows.samples ? 1 : 0;
    counters_.generated_tokens += n_sampled;
    counters_.prompt_tokens += rows.n_rows - rows.n_draft - n_sampled;
  }
}

}  // namespace plimsoll::worker
