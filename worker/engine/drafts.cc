#include "worker/engine/drafts.h"

#include <algorithm>
#include <cstddef>

#include "base/status_macros.h"
#include "worker/sampling/prompt_lookup.h"

namespace plimsoll::worker {

Drafts::Drafts(const EngineResources& resources)
    : stages_(resources.stages),
      cache_(*resources.cache),
      is_enabled_(resources.plan().options.n_draft > 0) {
  if (!is_enabled_) return;
  if (resources.mtp != nullptr) mtp_.emplace(resources);
  const auto n_draft = static_cast<size_t>(resources.plan().options.n_draft);
  newest_tokens_.reserve(static_cast<size_t>(kLookupTokens));
  draft_offsets_.reserve(n_draft);
  ring_offsets_.reserve(n_draft);
}

void Drafts::Guess(Sequence& sequence, int64_t slot) {
  // No guess may need a page of its own.
  const int64_t most =
      std::min(sequence.MostDrafted(), cache_.RoomAfterNext(slot));
  if (most <= 0) return;
  if (mtp_) {
    const std::span<const int32_t> predicted = sequence.predicted();
    sequence.SetDraft(
        predicted.first(std::min(static_cast<size_t>(most), predicted.size())));
    return;
  }
  sequence.history().Newest(kLookupTokens, newest_tokens_);
  sequence.SetDraft(LookUpDraft(newest_tokens_, most));
}

absl::Status Drafts::Keep(const DraftRows& guessed, int64_t n_right) {
  RETURN_IF_ERROR(MoveToRings({.slot = guessed.slot,
                               .first_position = guessed.first_position,
                               .n_rows = n_right}));
  cache_.AcceptDrafts(guessed.slot, n_right);
  cache_.Truncate(guessed.slot, guessed.first_position + n_right);
  return absl::OkStatus();
}

absl::Status Drafts::MoveToRings(const DraftRows& rows) {
  if (rows.n_rows == 0) return absl::OkStatus();
  for (const Stage& stage : stages_) {
    for (int64_t i = 0; i < stage.shape.n_layers; ++i) {
      const int64_t layer = stage.first_layer + i;
      if (!cache_.OwnsRing(layer)) continue;
      RETURN_IF_ERROR(MoveToRing(*stage.backend, layer, rows));
    }
  }
  return absl::OkStatus();
}

absl::Status Drafts::MoveToRing(kernels::Backend& backend, int64_t layer,
                                const DraftRows& rows) {
  const kernels::RingKv from = cache_.Drafts(layer, rows.slot);
  const kernels::RingKv to = cache_.Ring(layer, rows.slot);
  const auto copy = [&](const std::byte* drafts, std::byte* ring,
                        int64_t row_bytes) {
    draft_offsets_.clear();
    ring_offsets_.clear();
    // A ring holds the last `window` rows only.
    const int64_t end = rows.first_position + rows.n_rows;
    for (int64_t p = std::max(rows.first_position, end - to.window); p < end;
         ++p) {
      draft_offsets_.push_back(p % from.window * row_bytes);
      ring_offsets_.push_back(p % to.window * row_bytes);
    }
    return backend.CopyRows({.src = drafts,
                             .src_offsets = draft_offsets_.data(),
                             .dst = ring,
                             .dst_offsets = ring_offsets_.data(),
                             .n_rows = std::ssize(draft_offsets_),
                             .row_bytes = row_bytes});
  };
  RETURN_IF_ERROR(copy(from.k, to.k, cache_.KeyRowBytes(layer)));
  return copy(from.v, to.v, cache_.ValueRowBytes(layer));
}

}  // namespace plimsoll::worker
