#include "worker/engine/contexts.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "base/sync/fault.h"
#include "worker/sampling/token_history.h"

namespace plimsoll::worker {
namespace {

// The keys of a context that has evicted tokens were computed with those tokens
// in sight. They cannot be computed again.
bool IsRecomputable(const Sequence& sequence) {
  return sequence.history().evicted_positions() == 0;
}

}  // namespace

Contexts::Contexts(EngineResources& resources, StepCounters& counters)
    : stages_(resources.stages),
      cache_(*resources.cache),
      parked_(*resources.parked),
      counters_(counters),
      n_pages_(cache_.free_pages()) {}

std::optional<Admission> Contexts::Begin(Sequence& sequence, int64_t slot) {
  const absl::Status given =
      cache_.GiveTo(slot, sequence.options().claim.tenant);
  if (!given.ok()) {
    sequence.End(given);
    return std::nullopt;
  }
  if (parked_.Has(sequence.id())) {
    const absl::Status restored = parked_.Restore(sequence.id(), slot);
    if (restored.ok()) {
      return Admission{cache_.Length(slot), RowLimit(sequence)};
    }
    sequence.End(restored);
    return std::nullopt;
  }
  cache_.Begin(slot, sequence.roll().prefix_tokens);
  const int64_t n_shareable = ShareableTokens(sequence);
  if (n_shareable == 0) return Admission{0, RowLimit(sequence)};
  const int64_t n_computed = AttachShared(sequence, slot, n_shareable);
  return Admission{n_computed, RowLimit(sequence)};
}

int64_t Contexts::ShareableTokens(const Sequence& sequence) {
  const TokenHistory& history = sequence.history();
  if (history.n_evicted() > 0) return 0;
  const GenerateOptions& options = sequence.options();
  // The last token's row is computed for its logits, and so are the rows of
  // tokens whose scores are wanted.
  const int64_t n_shareable =
      std::min({history.n_tokens() - 1, sequence.roll().FullAt(0),
                options.prompt_logprobs ? options.first_scored - 1
                                        : history.n_tokens()});
  return std::max<int64_t>(n_shareable, 0);
}

int64_t Contexts::AttachShared(Sequence& sequence, int64_t slot,
                               int64_t n_shareable) {
  const std::vector<int32_t> tokens = sequence.history().Oldest(n_shareable);
  KvCache::Shared shared =
      cache_.Attach(slot, sequence.options().claim.tenant, tokens);
  if (shared.snapshot &&
      !Copy(cache_.OfSnapshot(*shared.snapshot), cache_.OfSlot(slot)).ok()) {
    cache_.Clear(slot);
    cache_.Begin(slot, sequence.roll().prefix_tokens);
    shared = {};
  }
  // A sequence that begins again finds what it computed for itself: that does
  // not count.
  if (!sequence.has_started()) {
    sequence.SetCached(shared.n_tokens);
    counters_.cached_tokens += shared.n_tokens;
  }
  if (cache_.KeepsSnapshots()) {
    // A snapshot is worth keeping where other prompts have parted from this
    // one, and where this one ends.
    std::vector<int64_t>& keep_at = sequence.snapshots_at();
    const int64_t page = cache_.page_tokens();
    for (const int64_t n : {shared.n_matched, n_shareable / page * page}) {
      const int64_t last = keep_at.empty() ? shared.n_tokens : keep_at.back();
      if (n > last) keep_at.push_back(n);
    }
    if (keep_at.empty()) KeepNextOfReply(sequence);
  }
  return shared.n_tokens;
}

void Contexts::KeepNextOfReply(Sequence& sequence) const {
  if (sequence.history().n_evicted() > 0) return;
  const int64_t page = cache_.page_tokens();
  const int64_t next = (sequence.history().n_tokens() / page + 1) * page;
  // Behind a full context tokens have left.
  if (next > sequence.roll().FullAt(0)) return;
  sequence.snapshots_at().push_back(next);
}

int64_t Contexts::RowLimit(const Sequence& sequence) {
  const int64_t full =
      sequence.roll().FullAt(sequence.history().evicted_positions());
  const std::vector<int64_t>& keep_at = sequence.snapshots_at();
  return keep_at.empty() ? full : std::min(full, keep_at.front());
}

absl::Status Contexts::Extend(const Sequence& sequence, int64_t slot,
                              int64_t n_tokens) {
  if (cache_.Length(slot) == 0) {
    cache_.Begin(slot, sequence.roll().prefix_tokens);
  }
  return cache_.Extend(slot, n_tokens);
}

void Contexts::Publish(const Sequence& sequence, int64_t slot) {
  const TokenHistory& history = sequence.history();
  if (history.n_evicted() > 0) return;
  cache_.Publish(slot, sequence.options().claim.tenant,
                 history.Oldest(cache_.Length(slot)));
}

bool Contexts::KeepSnapshot(Sequence& sequence, int64_t slot) {
  std::vector<int64_t>& keep_at = sequence.snapshots_at();
  if (keep_at.empty() || cache_.Length(slot) < keep_at.front()) return false;
  Publish(sequence, slot);
  const std::string& owner = sequence.options().claim.tenant;
  const std::vector<int32_t> tokens =
      sequence.history().Oldest(keep_at.front());
  const auto of = keep_at.front() > sequence.n_prompt()
                      ? PrefixCache::SnapshotOf::kReply
                      : PrefixCache::SnapshotOf::kPrompt;
  if (const auto snapshot = cache_.KeepSnapshot(owner, tokens, of)) {
    // It may be that of another tenant, so a copy that fails is not kept.
    const auto to = cache_.OfSnapshot(*snapshot);
    if (!Copy(cache_.OfSlot(slot), to).ok()) {
      cache_.ForgetSnapshot(owner, tokens);
    }
  }
  keep_at.erase(keep_at.begin());
  if (keep_at.empty()) KeepNextOfReply(sequence);
  return true;
}

bool Contexts::IsFull(const Sequence& sequence, int64_t slot) const {
  return cache_.Length(slot) >= sequence.roll().FullAt(cache_.Evicted(slot));
}

RollMethod Contexts::Roll(Sequence& sequence, int64_t slot) {
  const EvictionPlan eviction = sequence.Evict(cache_.Live(slot));
  if (eviction.method == RollMethod::kShift) {
    cache_.Evict(slot, eviction.n_tokens);
  } else {
    cache_.Clear(slot);
  }
  return eviction.method;
}

bool Contexts::CanLoseSlot(const Sequence& sequence) const {
  return sequence.end() || IsRecomputable(sequence) || parked_.HasRoom();
}

bool Contexts::Park(const Sequence& sequence, int64_t slot) {
  if (sequence.end() || IsRecomputable(sequence)) return false;
  return parked_.HasRoom() && parked_.Park(sequence.id(), slot).ok();
}

void Contexts::ForgetParked(Sequence& sequence) {
  if (!parked_.Has(sequence.id())) return;
  parked_.Forget(sequence.id());
  sequence.ForgetComputed();
}

void Contexts::Drop(Sequence& sequence, int64_t slot) {
  Publish(sequence, slot);
  cache_.Clear(slot);
  sequence.snapshots_at().clear();
}

absl::Status Contexts::Copy(const KvCache::BesidePages& from,
                            const KvCache::BesidePages& to) {
  if (PLIMSOLL_FAULT("snapshot.copy")) {
    return absl::UnavailableError("the device copied nothing");
  }
  const int64_t zero = 0;
  const auto copy = [&](size_t stage, const kernels::BufferView& source,
                        const kernels::BufferView& target) {
    if (source.bytes == 0) return absl::OkStatus();
    return stages_[stage].backend->CopyRows({.src = source.data,
                                             .src_offsets = &zero,
                                             .dst = target.data,
                                             .dst_offsets = &zero,
                                             .n_rows = 1,
                                             .row_bytes = source.bytes});
  };
  for (size_t i = 0; i < stages_.size(); ++i) {
    RETURN_IF_ERROR(copy(i, cache_.Rings(i, from), cache_.Rings(i, to)));
    RETURN_IF_ERROR(copy(i, cache_.State(i, from), cache_.State(i, to)));
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::worker
