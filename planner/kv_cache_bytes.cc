#include "planner/kv_cache_bytes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kPageTokens = 64;
constexpr int64_t kShortPageMultiple = 16;

absl::Status CheckPositive(absl::string_view name, int64_t count) {
  if (count > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be positive, got ", count));
}

// Bytes that one token takes in `layer`: K and V of all its heads.
absl::StatusOr<Checked> TokenBytes(const LayerShape& layer, DType k_type,
                                   DType v_type) {
  RETURN_IF_ERROR(CheckPositive("n_kv_heads", layer.n_kv_heads));
  RETURN_IF_ERROR(CheckPositive("head_dim", layer.head_dim));
  ASSIGN_OR_RETURN(const int64_t k_row, RowBytes(k_type, layer.head_dim));
  ASSIGN_OR_RETURN(const int64_t v_row, RowBytes(v_type, layer.head_dim));
  return Checked(layer.n_kv_heads) * (Checked(k_row) + v_row);
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

absl::StatusOr<KvBytes> KvCacheBytes(const ModelShape& shape, int64_t n_ctx,
                                     int64_t n_slots, int64_t n_idle,
                                     DType k_type, DType v_type) {
  RETURN_IF_ERROR(CheckPositive("n_ctx", n_ctx));
  RETURN_IF_ERROR(CheckPositive("n_slots", n_slots));
  if (n_idle < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("n_idle must not be negative, got ", n_idle));
  }
  Checked paged = 0;  // bytes of one token in all layers in pages
  Checked rings = 0;
  for (size_t il = 0; il < shape.layers.size(); ++il) {
    const LayerShape& layer = shape.layers[il];
    if (layer.kv_source != static_cast<int64_t>(il)) continue;
    if (layer.window < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("window must not be negative, got ", layer.window));
    }
    ASSIGN_OR_RETURN(const Checked token, TokenBytes(layer, k_type, v_type));
    if (HasRing(layer.window, n_ctx)) {
      rings += token * layer.window;
    } else {
      paged += token;
    }
  }
  const int64_t page_tokens = PageTokens(n_ctx);
  const int64_t pages = CeilDiv(n_ctx, page_tokens);
  const auto page_bytes = (paged * page_tokens).Get();
  const auto ring_bytes = rings.Get();
  const auto full = (paged * page_tokens * pages * n_slots).Get();
  const auto window = (rings * (Checked(n_slots) + n_idle)).Get();
  if (!page_bytes || !ring_bytes || !full || !window ||
      (Checked(*full) + *window).overflow()) {
    return absl::OutOfRangeError(
        absl::StrCat("the KV cache of ", n_slots, " slots of ", n_ctx,
                     " tokens does not fit in int64 bytes"));
  }
  return KvBytes{.page_tokens = page_tokens,
                 .pages_per_slot = pages,
                 .page_bytes = *page_bytes,
                 .ring_bytes = *ring_bytes,
                 .full_bytes = *full,
                 .window_bytes = *window,
                 .bytes_per_token = *page_bytes / page_tokens};
}

}  // namespace plimsoll::planner
