#include "planner/layout/kv_cache_bytes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kPageTokens = 64;
constexpr int64_t kShortPageMultiple = 16;
// llama.cpp rounds cells up to a multiple of this; kWindowPlusUbatch plans for
// it.
constexpr int64_t kPaddedCells = 256;

absl::Status CheckPositive(absl::string_view name, int64_t count) {
  if (count > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be positive, got ", count));
}

absl::Status CheckCounts(int64_t n_ctx, int64_t n_slots, int64_t n_idle) {
  RETURN_IF_ERROR(CheckPositive("n_ctx", n_ctx));
  RETURN_IF_ERROR(CheckPositive("n_slots", n_slots));
  if (n_idle >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("n_idle must not be negative, got ", n_idle));
}

absl::Status TooLarge(int64_t n_ctx, int64_t n_slots) {
  return absl::OutOfRangeError(
      absl::StrCat("the KV cache of ", n_slots, " slots of ", n_ctx,
                   " tokens does not fit in int64 bytes"));
}

int64_t PageTokensOf(const KvRules& rules, int64_t n_ctx) {
  if (rules.ring == RingRule::kWindowPlusUbatch) return kPaddedCells;
  return rules.has_pages ? PageTokens(n_ctx) : 1;
}

// The pages of all slots together: `all_pages`, or those of the pool, which has
// room for one slot's `pages` at least.
int64_t PagesOf(const KvRules& rules, int64_t pages, Checked all_pages,
                int64_t page_tokens) {
  const int64_t most = all_pages.Get().value_or(0);
  if (rules.pool_tokens <= 0) return most;
  return std::clamp(CeilDiv(rules.pool_tokens, page_tokens), pages,
                    std::max(most, pages));
}

// The cells of a ring layer, or 0 if it is kept like a full-attention layer.
// `cells` are the cells of a full-attention layer.
int64_t RingCells(const KvRules& rules, int64_t window, Checked cells) {
  if (window == 0 || rules.ring == RingRule::kFull) return 0;
  const auto full = cells.Get();
  if (rules.ring == RingRule::kExact) {
    return full && *full <= window ? 0 : window;
  }
  auto ring = CheckedAdd(window, rules.ring_tokens);
  if (!ring || (full && *full < *ring)) ring = full;
  if (rules.ring == RingRule::kWindowPlusUbatch && ring) {
    ring = CheckedRoundUp(*ring, kPaddedCells);
  }
  return ring.value_or(0);
}

}  // namespace

int64_t PageTokens(int64_t n_ctx) {
  if (n_ctx >= kPageTokens) return kPageTokens;
  return CeilDiv(n_ctx, kShortPageMultiple) * kShortPageMultiple;
}

bool HasRing(int64_t window, int64_t n_ctx) {
  if (window <= 0) return false;
  const auto cells = CheckedRoundUp(n_ctx, PageTokens(n_ctx));
  return !cells || *cells > window;
}

void KvModel::Add(const Group& layer) {
  for (Group& group : groups_) {
    if (group.k_row == layer.k_row && group.v_row == layer.v_row &&
        group.window == layer.window) {
      ++group.n_layers;
      return;
    }
  }
  groups_.push_back(layer);
}

absl::StatusOr<KvModel::Group> KvModel::GroupOf(const LayerShape& layer,
                                                DType k_type, DType v_type) {
  RETURN_IF_ERROR(CheckPositive("n_kv_heads", layer.n_kv_heads));
  RETURN_IF_ERROR(CheckPositive("head_dim", layer.head_dim));
  if (layer.window < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("window must not be negative, got ", layer.window));
  }
  ASSIGN_OR_RETURN(const int64_t k_row, RowBytes(k_type, layer.head_dim));
  ASSIGN_OR_RETURN(const int64_t v_row,
                   RowBytes(v_type, layer.StoredValueDim()));
  const Checked k = Checked(layer.n_kv_heads) * k_row;
  const Checked v = Checked(layer.n_kv_heads) * v_row;
  if ((k + v).overflow()) {
    return absl::OutOfRangeError("a token's keys do not fit in int64 bytes");
  }
  return Group{*k.Get(), *v.Get(), layer.window, 1};
}

absl::StatusOr<KvModel> KvModel::Create(const ModelShape& shape, DType k_type,
                                        DType v_type, const KvRules& rules) {
  KvModel model;
  model.rules_ = rules;
  int64_t widest_v_row = 0;
  // Layers are of few kinds, so the last two different ones are kept.
  std::array<std::pair<const LayerShape*, Group>, 2> seen = {};
  // Both factors are within limits that leave room for their product.
  const int64_t layer_state = shape.recurrent.StateFloats() * kFloatBytes;
  for (size_t il = 0; il < shape.layers.size(); ++il) {
    const LayerShape& layer = shape.layers[il];
    if (layer.IsRecurrent()) model.state_bytes_ += layer_state;
    if (!layer.Attends()) continue;
    if (seen[1].first != nullptr && layer.IsLike(*seen[1].first)) {
      std::swap(seen[0], seen[1]);
    } else if (seen[0].first == nullptr || !layer.IsLike(*seen[0].first)) {
      seen[1] = seen[0];
      const absl::StatusOr<Group> group = GroupOf(layer, k_type, v_type);
      if (!group.ok()) {
        return absl::Status(
            group.status().code(),
            absl::StrCat("layer ", il, ": ", group.status().message()));
      }
      seen[0] = {&layer, *group};
    }
    widest_v_row = std::max(widest_v_row, seen[0].second.v_row);
    if (layer.kv_source == static_cast<int64_t>(il)) model.Add(seen[0].second);
  }
  if (!rules.has_flash_attention) {
    for (Group& group : model.groups_) group.v_row = widest_v_row;
  }
  return model;
}

absl::StatusOr<KvBytes> KvModel::Bytes(int64_t n_ctx, int64_t n_slots,
                                       int64_t n_idle) const {
  RETURN_IF_ERROR(CheckCounts(n_ctx, n_slots, n_idle));
  const int64_t page_tokens = PageTokensOf(rules_, n_ctx);
  const int64_t pages = CeilDiv(n_ctx, page_tokens);
  const Checked cells = Checked(pages) * page_tokens;
  const Checked all_pages = Checked(n_slots) * pages;
  const int64_t n_pages = PagesOf(rules_, pages, all_pages, page_tokens);
  // Bytes of a buffer with `row` bytes a cell, rounded by the engine's
  // allocator.
  const auto buffer = [this](int64_t row, Checked n_cells) -> Checked {
    return RoundedUp(rules_.allocation, rules_.granularity_bytes,
                     n_cells * row);
  };
  Checked paged_row = 0;
  Checked ring = 0;
  Checked ring_row = 0;
  Checked full = 0;
  Checked window = 0;
  for (const Group& group : groups_) {
    const int64_t ring_cells = RingCells(rules_, group.window, cells);
    const Checked row = Checked(group.k_row) + group.v_row;
    const Checked all_cells = ring_cells > 0
                                  ? (Checked(n_slots) + n_idle) * ring_cells
                                  : Checked(n_pages) * page_tokens;
    const Checked bytes =
        (buffer(group.k_row, all_cells) + buffer(group.v_row, all_cells)) *
        group.n_layers;
    if (ring_cells > 0) {
      ring += row * ring_cells * group.n_layers;
      ring_row += row * group.n_layers;
      window += bytes;
    } else {
      paged_row += row * group.n_layers;
      full += bytes;
    }
  }
  const Checked page = paged_row * page_tokens;
  const Checked n_states =
      Checked(n_slots) * (Checked(1) + rules_.n_draft) + n_idle;
  const Checked states = n_states * state_bytes_;
  if ((page + ring + ring_row + full + window + all_pages + states)
          .overflow()) {
    return TooLarge(n_ctx, n_slots);
  }
  KvBytes bytes = {};
  bytes.page_tokens = page_tokens;
  bytes.pages_per_slot = pages;
  bytes.n_pages = n_pages;
  bytes.page_bytes = *page.Get();
  bytes.ring_bytes = *ring.Get();
  bytes.ring_row_bytes = *ring_row.Get();
  bytes.full_bytes = *full.Get();
  bytes.window_bytes = *window.Get();
  bytes.state_bytes = state_bytes_;
  bytes.n_states = *n_states.Get();
  bytes.all_state_bytes = *states.Get();
  bytes.bytes_per_token = bytes.page_bytes / page_tokens;
  return bytes;
}

absl::StatusOr<KvBytes> KvCacheBytes(const ModelShape& shape,
                                     const KvCacheOptions& options) {
  ASSIGN_OR_RETURN(
      const KvModel model,
      KvModel::Create(shape, options.k_type, options.v_type, options.rules));
  return model.Bytes(options.n_ctx, options.n_slots, options.n_idle);
}

}  // namespace plimsoll::planner
