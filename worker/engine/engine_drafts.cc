// Speculative decoding by prompt lookup: tokens that are guessed, computed
// beside the one that is known, and kept as far as they are what is drawn. A
// guess changes the time that tokens take, never which ones they are.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "worker/engine/engine_impl.h"
#include "worker/sampling/prompt_lookup.h"

namespace plimsoll::worker {

void Engine::Impl::GuessTokens() {
  if (plan.options.n_draft == 0) return;
  for (const auto& [id, sequence] : sequences) {
    sequence->SetDraft({});
    if (sequence->end() || sequence->HasOutput()) continue;
    const int64_t most =
        std::min(sequence->MostDrafted(), RoomForDraft(*sequence));
    if (most <= 0) continue;
    sequence->history().Newest(kLookupTokens, newest_tokens);
    const std::span<const int32_t> draft = LookUpDraft(newest_tokens, most);
    sequence->SetDraft(draft);
    scheduler.SetDraft(id, static_cast<int64_t>(draft.size()));
  }
}

// A guess takes no page of its own.
int64_t Engine::Impl::RoomForDraft(const Sequence& sequence) {
  const std::optional<int64_t> slot = scheduler.SlotOf(sequence.id());
  return slot ? cache->RoomAfterNext(*slot) : 0;
}

absl::Status Engine::Impl::KeepDrafts(int64_t slot, int64_t first_position,
                                      int64_t n_rows) {
  if (n_rows == 0) return absl::OkStatus();
  for (const Stage& stage : stages) {
    for (int64_t i = 0; i < stage.shape.n_layers; ++i) {
      const int64_t layer = stage.first_layer + i;
      if (!cache->OwnsRing(layer)) continue;
      RETURN_IF_ERROR(
          KeepDraftsOf(*stage.backend, layer, slot, first_position, n_rows));
    }
  }
  return absl::OkStatus();
}

absl::Status Engine::Impl::KeepDraftsOf(kernels::Backend& of, int64_t layer,
                                        int64_t slot, int64_t first_position,
                                        int64_t n_rows) {
  const kernels::RingKv from = cache->Drafts(layer, slot);
  const kernels::RingKv to = cache->Ring(layer, slot);
  std::vector<int64_t>& src = draft_offsets;
  std::vector<int64_t>& dst = ring_offsets;
  const auto copy = [&](const std::byte* rows, std::byte* ring,
                        int64_t row_bytes) {
    src.clear();
    dst.clear();
    // Of more than a window of them only the last are kept.
    const int64_t end = first_position + n_rows;
    for (int64_t p = std::max(first_position, end - to.window); p < end; ++p) {
      src.push_back(p % from.window * row_bytes);
      dst.push_back(p % to.window * row_bytes);
    }
    return of.CopyRows({.src = rows,
                        .src_offsets = src.data(),
                        .dst = ring,
                        .dst_offsets = dst.data(),
                        .n_rows = static_cast<int64_t>(src.size()),
                        .row_bytes = row_bytes});
  };
  RETURN_IF_ERROR(copy(from.k, to.k, cache->KeyRowBytes(layer)));
  return copy(from.v, to.v, cache->ValueRowBytes(layer));
}

void Engine::Impl::RejectDrafts() {
  for (const ScheduledRows& r : scheduled) {
    scheduler.Reject(r.id, r.n_rejected);
  }
}

absl::Status Engine::Impl::DrawTokens(ScheduledRows& rows, Sequence& sequence,
                                      int64_t first_sampled) {
  const std::vector<int32_t>& draft = sequence.draft();
  const bool is_first = sequence.n_generated() == 0;
  int64_t n_kept = 0;
  for (int64_t i = 0; i <= rows.n_draft; ++i) {
    absl::StatusOr<TokenOutput> token = row_sampler->Draw(
        sequence.NextDraw(), first_sampled + i, sequence.TakeRoom());
    if (!token.ok()) {
      sequence.End(token.status());
      return absl::OkStatus();
    }
    const int32_t id = token->id;
    sequence.Accept(*std::move(token), *tokenizer, plan.n_ctx, options.clock());
    const bool is_guessed =
        i < rows.n_draft && draft[static_cast<size_t>(i)] == id;
    if (!is_guessed || sequence.end()) break;
    ++n_kept;
  }
  if (rows.n_draft > 0) {
    const int64_t first_draft = rows.first_position + 1;
    RETURN_IF_ERROR(KeepDrafts(rows.slot, first_draft, n_kept));
    cache->Truncate(rows.slot, first_draft + n_kept);
    sequence.CountDrafts(rows.n_draft, n_kept);
    rows.n_rejected = rows.n_draft - n_kept;
    counters.draft_tokens += rows.n_draft;
    counters.accepted_draft_tokens += n_kept;
    counters.generated_tokens += n_kept;
  }
  if (is_first) Publish(sequence, rows.slot);
  return absl::OkStatus();
}

}  // namespace plimsoll::worker
