// What an engine does between two steps: who begins, rolls, guesses and gets
// rows, who ends, and what of it others are told.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/engine/engine_impl.h"

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
  if (!has_news.exchange(false)) return all_sequences;
  absl::MutexLock lock(&mu);
  all_sequences.clear();
  for (const auto& [id, sequence] : sequences) {
    all_sequences.push_back(sequence.get());
    const auto found = aborts.find(id);
    if (found != aborts.end()) sequence->Abort(found->second);
  }
  aborts.clear();
  return all_sequences;
}

void Engine::Impl::StepLoop() {
  bool has_run = false;
  while (has_run || AwaitWork()) {
    step_began = absl::ToUnixNanos(options.clock());
    Sweep();
    if (!Prepare()) break;
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

bool Engine::Impl::Prepare() {
  absl::MutexLock lock(&mu);
  if (stopping) return false;
  RejectDrafts();
  FreeSessionSlots();
  Admit();
  KeepRings();
  RollFull();
  GuessTokens();
  MakeRoom();
  Schedule();
  return true;
}

void Engine::Impl::Sweep() {
  const absl::Time now = options.clock();
  for (Sequence* sequence : AllSequences()) {
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
      has_news = true;
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
  if (parked->Has(sequence.id())) {
    parked->Forget(sequence.id());
    sequence.ForgetComputed();
  }
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
  for (const int64_t slot : sessions.TakeFreedSlots(options.clock())) {
    cache->Clear(slot);
    scheduler.FreeSlot(slot);
  }
}

void Engine::Impl::Admit() {
  const auto begin = [this](int64_t id, int64_t slot)
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
                           return Begin(*sequences.at(id), slot);
                         };
  scheduler.Admit(begin);
  while (scheduler.HasNext() && FreeSlotForNext()) scheduler.Admit(begin);
}

std::optional<Admission> Engine::Impl::Begin(Sequence& sequence, int64_t slot) {
  if (!HasPagesFor(sequence, slot)) return std::nullopt;
  const TokenHistory& history = sequence.history();
  const int64_t limit = sequence.roll().FullAt(history.evicted_positions());
  if (parked->Has(sequence.id())) {
    const absl::Status restored = parked->Restore(sequence.id(), slot);
    if (restored.ok()) return Admission{cache->Length(slot), limit};
    sequence.End(restored);
    return std::nullopt;
  }
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
  for (const auto& [id, sequence] : sequences) {
    std::vector<int64_t>& keep_at = sequence->keep_rings_at();
    if (keep_at.empty() || sequence->end()) continue;
    const std::optional<int64_t> slot = scheduler.SlotOf(id);
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
    scheduler.SetLimit(
        id, keep_at.empty() ? limit : std::min(limit, keep_at.front()));
  }
}

// Only where the next row is about to be computed: not for a sequence that
// ended, nor while its reader is behind, as output offered again must not
// change.
void Engine::Impl::RollFull() {
  for (const auto& [id, sequence] : sequences) {
    if (sequence->options().roll.policy != ContextPolicy::kRoll) continue;
    if (sequence->end() || sequence->HasOutput()) continue;
    const std::optional<int64_t> slot = scheduler.SlotOf(id);
    if (!slot) continue;
    while (cache->Length(*slot) >=
           sequence->roll().FullAt(cache->Evicted(*slot))) {
      Roll(*sequence, *slot);
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
  if (is_shift) {
    scheduler.SetLimit(sequence.id(), limit);
  } else {
    scheduler.Restart(sequence.id(), history.n_positions(), limit);
  }
  // A prompt may be many times as long as the context.
  scheduler.BeginSlice(sequence.id());
}

void Engine::Impl::CountPages() {
  counters.kv_used_pages = kv_pages - cache->free_pages();
}

void Engine::Impl::Schedule() {
  scheduled_sequences.clear();
  CountPages();
  const int64_t n_decoding = scheduler.Decoding();
  scheduler.NextStep(
      [this, n_decoding](int64_t position) {
        return prompt_budget.Rows(n_decoding, position);
      },
      scheduled);
  for (const ScheduledRows& r : scheduled) {
    scheduled_sequences.push_back(sequences.at(r.id).get());
  }
}

}  // namespace plimsoll::worker
