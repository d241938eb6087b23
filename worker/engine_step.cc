// The step thread of an engine: what every step computes, and what becomes of
// its output.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/engine_impl.h"

namespace plimsoll::worker {
namespace {

// How often streams are looked at for deadlines and abandonment when nothing
// else wakes the step thread.
constexpr absl::Duration kIdleLook = absl::Milliseconds(50);

}  // namespace

bool Engine::Impl::AwaitWork() {
  absl::MutexLock lock(&mu);
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return woken || stopping;
  };
  if (sequences.empty()) {
    mu.Await(absl::Condition(&ready));
  } else {
    mu.AwaitWithTimeout(absl::Condition(&ready), kIdleLook);
  }
  woken = false;
  return !stopping;
}

const std::vector<Sequence*>& Engine::Impl::AllSequences() {
  absl::MutexLock lock(&mu);
  all_sequences.clear();
  for (const auto& [id, sequence] : sequences) {
    all_sequences.push_back(sequence.get());
  }
  return all_sequences;
}

void Engine::Impl::StepLoop() {
  bool has_run = false;
  while (has_run || AwaitWork()) {
    {
      absl::MutexLock lock(&mu);
      if (stopping) break;
    }
    step_began = absl::ToUnixNanos(options.clock());
    Sweep();
    Admit();
    KeepRings();
    RollFull();
    GuessTokens();
    MakeRoom();
    Schedule();
    pool.LeaveWorkersCpus();
    has_run = !scheduled.empty();
    if (has_run && !TimeStep()) break;
    step_began = kWaits;
  }
  step_began = kWaits;
  for (Sequence* sequence : AllSequences()) {
    sequence->End(absl::UnavailableError("the model is being unloaded"));
    sequence->Finish(options.clock());
  }
  absl::MutexLock lock(&mu);
  sequences.clear();
}

void Engine::Impl::Sweep() {
  FreeSessionSlots();
  std::map<int64_t, absl::Status> aborted;
  {
    absl::MutexLock lock(&mu);
    aborted.swap(aborts);
  }
  const absl::Time now = options.clock();
  for (Sequence* sequence : AllSequences()) {
    if (const auto found = aborted.find(sequence->id());
        found != aborted.end()) {
      sequence->Abort(found->second);
    }
    if (sequence->sink().Abandoned()) {
      sequence->End(absl::CancelledError("the client is gone"));
    }
    if (now >= sequence->options().deadline) {
      sequence->End(absl::DeadlineExceededError(
          absl::StrCat("the deadline passed after ", sequence->n_generated(),
                       " generated tokens")));
    }
    Settle(*sequence);
  }
}

// Moves a sequence's output on, then parks, unparks or ends it.
void Engine::Impl::Settle(Sequence& sequence) {
  const bool is_failed = sequence.end() && !sequence.end()->ok();
  const bool is_taken = sequence.Flush() || is_failed;
  if (is_taken && sequence.end()) {
    Leave(sequence);
    std::unique_ptr<Sequence> owner;
    {
      absl::MutexLock lock(&mu);
      owner = std::move(sequences.extract(sequence.id()).mapped());
    }
    owner->Finish(options.clock());
    return;
  }
  // Ended with output that its reader has not taken yet: parked as well.
  const bool parks = !is_taken || sequence.end();
  if (parks == sequence.is_parked()) return;
  sequence.set_parked(parks);
  absl::MutexLock lock(&mu);
  if (parks) {
    scheduler.Park(sequence.id());
  } else {
    scheduler.Unpark(sequence.id());
  }
}

void Engine::Impl::Leave(Sequence& sequence) {
  absl::MutexLock lock(&mu);
  const std::optional<int64_t> slot = scheduler.SlotOf(sequence.id());
  Session* session =
      sequence.session() ? sessions.Get(*sequence.session()) : nullptr;
  if (slot && sequence.end()->code() != absl::StatusCode::kInternal) {
    Publish(sequence, *slot);
  }
  if (session == nullptr) {
    if (slot) cache->Clear(*slot);
    scheduler.Remove(sequence.id());
    return;
  }
  session->history = sequence.history();
  // What a failed step left in the slot is worth nothing.
  if (slot && sequence.end()->code() == absl::StatusCode::kInternal) {
    cache->Clear(*slot);
    session->history.Restart();
  }
  session->slot = slot;
  session->n_computed = slot ? cache->Length(*slot) : 0;
  session->n_evictions += sequence.n_evictions();
  session->is_busy = false;
  session->last_used = options.clock();
  scheduler.RemoveKeepingSlot(sequence.id());
}

void Engine::Impl::FreeSessionSlots() {
  absl::MutexLock lock(&mu);
  for (const int64_t slot : sessions.TakeFreedSlots(options.clock())) {
    cache->Clear(slot);
    scheduler.FreeSlot(slot);
  }
}

void Engine::Impl::Admit() {
  absl::MutexLock lock(&mu);
  scheduler.Admit([this](int64_t id, int64_t slot)
                      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
                        return Begin(*sequences.at(id), slot);
                      });
}

std::optional<Admission> Engine::Impl::Begin(Sequence& sequence, int64_t slot) {
  if (!HasPagesFor(sequence, slot)) return std::nullopt;
  const TokenHistory& history = sequence.history();
  const int64_t limit = sequence.roll().FullAt(history.evicted_positions());
  cache->Begin(slot, sequence.roll().prefix_tokens);
  // The last token's row gives the first logits, and scored ones theirs.
  const GenerateOptions& wanted = sequence.options();
  const int64_t n_shareable = std::min(
      {history.n_tokens() - 1, sequence.roll().FullAt(0),
       wanted.prompt_logprobs ? wanted.first_scored - 1 : history.n_tokens()});
  if (history.n_evicted() > 0 || n_shareable <= 0) return Admission{0, limit};
  const std::vector<int32_t> tokens = history.Oldest(n_shareable);
  KvCache::Shared shared = cache->Attach(slot, wanted.claim.tenant, tokens);
  if (shared.ring &&
      !CopyRings(cache->KeptRings(*shared.ring), cache->SlotRings(slot)).ok()) {
    cache->Clear(slot);
    cache->Begin(slot, sequence.roll().prefix_tokens);
    shared = {};
  }
  // Of one that begins again they were computed for itself.
  if (!sequence.has_started()) {
    sequence.SetCached(shared.n_tokens);
    counters.cached_tokens += shared.n_tokens;
  }
  std::vector<int64_t>& keep_at = sequence.keep_rings_at();
  if (cache->KeepsRings()) {
    // Where others have parted from it, and where it ends.
    const int64_t page = cache->page_tokens();
    for (const int64_t n : {shared.n_matched, n_shareable / page * page}) {
      const int64_t last = keep_at.empty() ? shared.n_tokens : keep_at.back();
      if (n > last) keep_at.push_back(n);
    }
  }
  return Admission{shared.n_tokens,
                   keep_at.empty() ? limit : std::min(limit, keep_at.front())};
}

void Engine::Impl::Publish(const Sequence& sequence, int64_t slot) {
  const TokenHistory& history = sequence.history();
  if (history.n_evicted() > 0) return;
  cache->Publish(slot, sequence.options().claim.tenant,
                 history.Oldest(cache->Length(slot)));
}

void Engine::Impl::KeepRings() {
  if (!cache->KeepsRings()) return;
  for (Sequence* sequence : AllSequences()) {
    std::vector<int64_t>& keep_at = sequence->keep_rings_at();
    if (keep_at.empty() || sequence->end()) continue;
    absl::MutexLock lock(&mu);
    const std::optional<int64_t> slot = scheduler.SlotOf(sequence->id());
    if (!slot || cache->Length(*slot) < keep_at.front()) continue;
    Publish(*sequence, *slot);
    const std::string& owner = sequence->options().claim.tenant;
    const std::vector<int32_t> tokens =
        sequence->history().Oldest(keep_at.front());
    if (const auto ring = cache->KeepRing(owner, tokens)) {
      CopyRings(cache->SlotRings(*slot), cache->KeptRings(*ring)).IgnoreError();
    }
    keep_at.erase(keep_at.begin());
    const int64_t limit = sequence->roll().FullAt(0);
    scheduler.SetLimit(sequence->id(), keep_at.empty()
                                           ? limit
                                           : std::min(limit, keep_at.front()));
  }
}

// Only where the next row is about to be computed: not for a sequence that
// ended, nor while its reader is behind, as output offered again must not
// change.
void Engine::Impl::RollFull() {
  rolling.clear();
  {
    absl::MutexLock lock(&mu);
    for (const auto& [id, sequence] : sequences) {
      if (sequence->options().context_policy != ContextPolicy::kRoll) continue;
      if (sequence->end() || sequence->HasOutput()) continue;
      if (const std::optional<int64_t> slot = scheduler.SlotOf(id)) {
        rolling.emplace_back(sequence.get(), *slot);
      }
    }
  }
  for (const auto& [sequence, slot] : rolling) {
    while (cache->Length(slot) >=
           sequence->roll().FullAt(cache->Evicted(slot))) {
      Roll(*sequence, slot);
    }
  }
}

void Engine::Impl::Roll(Sequence& sequence, int64_t slot) {
  const Leaving leaving = sequence.Evict(cache->Live(slot));
  const bool is_shift = leaving.method == RollMethod::kShift;
  if (is_shift) {
    cache->Evict(slot, leaving.n_tokens);
  } else {
    cache->Clear(slot);
  }
  const TokenHistory& history = sequence.history();
  const int64_t limit = sequence.roll().FullAt(history.evicted_positions());
  absl::MutexLock lock(&mu);
  if (is_shift) {
    scheduler.SetLimit(sequence.id(), limit);
  } else {
    scheduler.Restart(sequence.id(), history.n_positions(), limit);
  }
}

void Engine::Impl::CountPages() {
  counters.kv_used_pages = kv_pages - cache->free_pages();
}

void Engine::Impl::Schedule() {
  scheduled_sequences.clear();
  absl::MutexLock lock(&mu);
  CountPages();
  scheduler.NextStep(prompt_budget.Rows(scheduler.Decoding()), scheduled);
  for (const ScheduledRows& r : scheduled) {
    scheduled_sequences.push_back(sequences.at(r.id).get());
  }
}

bool Engine::Impl::TimeStep() {
  int64_t n_decoding = 0;
  int64_t n_prompt = 0;
  for (const ScheduledRows& r : scheduled) {
    (r.is_decoding ? n_decoding : n_prompt) += r.is_decoding ? 1 : r.n_rows;
  }
  const absl::Time begin = options.clock();
  if (!RunStep()) return false;
  prompt_budget.Record(n_decoding, n_prompt, options.clock() - begin);
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
  sampled.clear();
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
      sampled.push_back(sequence);
    }
  }
  batch.top = row_sampler->LookedAt(sampled);
  return absl::OkStatus();
}

bool Engine::Impl::RunStep() {
  absl::Status status = BuildBatch();
  batch.only_decodes =
      std::ranges::all_of(scheduled, &ScheduledRows::is_decoding);
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

absl::Status Engine::Impl::CheckOpen() {
  if (!lost.ok()) return lost;
  if (draining) return absl::UnavailableError("the model is draining");
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
  absl::MutexLock lock(&mu);
  CountPages();
  ++counters.steps;
  for (const ScheduledRows& r : scheduled) {
    const int64_t n_sampled = r.samples ? 1 : 0;
    counters.generated_tokens += n_sampled;
    counters.prompt_tokens += r.n_rows - r.n_draft - n_sampled;
  }
}

absl::Status Engine::Impl::SampleRows() {
  RETURN_IF_ERROR(row_sampler->Begin(sampled));
  int64_t first_sampled = 0;
  for (size_t i = 0; i < scheduled.size(); ++i) {
    const ScheduledRows& r = scheduled[i];
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
    ScoredRows scored;
    sequence->AppendUnscored(scheduled[i].first_position, scheduled[i].n_rows,
                             batch.sequences[i].first_row, scored);
    std::vector<PromptScore> scores;
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
