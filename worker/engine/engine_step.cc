// The step thread of an engine: what every step computes, and what becomes of
// its output.
#include <algorithm>

#include "base/status_macros.h"
#include "worker/engine/engine_impl.h"

namespace plimsoll::worker {

bool Engine::Impl::TimeStep() {
  int64_t n_decoding = 0;
  int64_t n_prompt = 0;
  int64_t furthest = 0;
  for (const ScheduledRows& r : scheduled) {
    if (r.is_decoding) {
      ++n_decoding;
      continue;
    }
    n_prompt += r.n_rows;
    furthest = std::max(furthest, r.first_position);
  }
  const absl::Time begin = options.clock();
  if (!RunStep()) return false;
  prompt_budget.Record(n_decoding, n_prompt, options.clock() - begin, furthest);
  return true;
}

absl::Status Engine::Impl::BuildBatch() {
  batch.tokens.clear();
  batch.positions.clear();
  batch.prefix_positions.clear();
  batch.has_rolled_prefix = false;
  batch.sequences.clear();
  batch.sampled_rows.clear();
  batch.keeps_all_rows = false;
  batch.only_decodes =
      std::ranges::all_of(scheduled, &ScheduledRows::is_decoding);
  draws.clear();
  const absl::Time now = options.clock();
  for (size_t i = 0; i < scheduled.size(); ++i) {
    const ScheduledRows& r = scheduled[i];
    Sequence* sequence = scheduled_sequences[i];
    sequence->Started(now, plan.n_ctx);
    const TokenHistory& history = sequence->history();
    if (cache->Length(r.slot) == 0) {
      cache->Begin(r.slot, sequence->roll().prefix_tokens);
    }
    RETURN_IF_ERROR(cache->Extend(r.slot, r.first_position + r.n_rows));
    batch.sequences.push_back(
        {.slot = r.slot,
         .first_row = static_cast<int64_t>(batch.tokens.size()),
         .n_rows = r.n_rows,
         .first_position = r.first_position,
         .n_draft = r.n_draft,
         .is_prompt = !r.is_decoding});
    const int64_t n_known = r.n_rows - r.n_draft;
    for (int64_t row = 0; row < r.n_rows; ++row) {
      const int64_t position = r.first_position + row;
      batch.tokens.push_back(
          row < n_known
              ? history.TokenAt(position)
              : sequence->draft()[static_cast<size_t>(row - n_known)]);
      batch.positions.push_back(position);
      batch.prefix_positions.push_back(position - cache->Evicted(r.slot));
    }
    batch.has_rolled_prefix |= cache->HasRolledPrefix(r.slot);
    batch.keeps_all_rows |= sequence->options().prompt_logprobs;
    if (!r.samples) continue;
    const auto end = static_cast<int32_t>(batch.tokens.size());
    for (auto row = end - static_cast<int32_t>(1 + r.n_draft); row < end;
         ++row) {
      batch.sampled_rows.push_back(row);
      draws.push_back(sequence->NextDraw());
    }
  }
  batch.top = row_sampler->LookedAt(draws, batch.only_decodes);
  return absl::OkStatus();
}

bool Engine::Impl::RunStep() {
  absl::Status status = BuildBatch();
  if (status.ok()) status = model->Step(batch);
  if (status.ok()) status = SampleRows();
  if (status.ok()) status = ScorePrompts();
  // A step without sampled rows has not waited for its device yet.
  if (status.ok()) status = backend->Synchronize();
  if (absl::IsUnavailable(status)) {
    LoseDevice(status);
    return false;
  }
  CountRows();
  for (Sequence* sequence : scheduled_sequences) {
    // Whatever it was, nobody knows what the step has written.
    if (!status.ok()) sequence->End(absl::InternalError(status.message()));
    Settle(*sequence);
  }
  return true;
}

absl::Status Engine::Impl::CheckOpen(bool is_admitted) {
  if (!lost.ok()) return lost;
  if (draining && (stopping || !is_admitted))
    return absl::UnavailableError("the model is draining");
  return absl::OkStatus();
}

void Engine::Impl::LoseDevice(const absl::Status& error) {
  const absl::Status reason =
      options.on_device_lost != nullptr ? options.on_device_lost(error) : error;
  {
    absl::MutexLock lock(&mu);
    lost = reason;
    draining = true;
  }
  for (Sequence* sequence : AllSequences()) {
    sequence->Abort(reason);
    Settle(*sequence);
  }
}

void Engine::Impl::CountRows() {
  CountPages();
  ++counters.steps;
  for (const ScheduledRows& r : scheduled) {
    const int64_t n_sampled = r.samples ? 1 : 0;
    counters.generated_tokens += n_sampled;
    counters.prompt_tokens += r.n_rows - r.n_draft - n_sampled;
  }
}

absl::Status Engine::Impl::SampleRows() {
  RETURN_IF_ERROR(row_sampler->Begin(draws, batch.sampled_rows));
  int64_t first_sampled = 0;
  for (size_t i = 0; i < scheduled.size(); ++i) {
    ScheduledRows& r = scheduled[i];
    if (!r.samples) continue;
    RETURN_IF_ERROR(DrawTokens(r, *scheduled_sequences[i], first_sampled));
    first_sampled += 1 + r.n_draft;
  }
  return absl::OkStatus();
}

absl::Status Engine::Impl::ScorePrompts() {
  for (size_t i = 0; i < scheduled.size(); ++i) {
    Sequence* sequence = scheduled_sequences[i];
    if (!sequence->options().prompt_logprobs) continue;
    scored.rows.clear();
    scored.targets.clear();
    sequence->AppendUnscored(scheduled[i].first_position, scheduled[i].n_rows,
                             batch.sequences[i].first_row, scored);
    scores.clear();
    const absl::Status status = scorer->Score(scored, scores);
    if (status.code() == absl::StatusCode::kInternal) {
      sequence->End(status);  // of this sequence alone
      continue;
    }
    RETURN_IF_ERROR(status);
    sequence->AddScores(scores);
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::worker
