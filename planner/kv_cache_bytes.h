// Bytes of keys and values for (shape, n_ctx, sequences, element types).
#ifndef PLIMSOLL_PLANNER_KV_CACHE_BYTES_H_
#define PLIMSOLL_PLANNER_KV_CACHE_BYTES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "planner/model_shape.h"

namespace plimsoll::planner {

// Tokens of one page of a context of `n_ctx` tokens: 64, or for a short context
// n_ctx rounded up to 16. Requires n_ctx > 0.
int64_t PageTokens(int64_t n_ctx);

// True if a window layer of `window` tokens is kept in a ring of exactly
// `window` cells; false if the whole (page-rounded) context is not longer than
// the window, in which case it has pages like a full layer.
bool HasRing(int64_t window, int64_t n_ctx);

// Where every byte of the KV cache goes. All layers that own KV are counted;
// `full` layers are those in pages.
struct KvBytes {
  int64_t page_tokens;     // tokens of one page
  int64_t pages_per_slot;  // ceil(n_ctx / page_tokens)
  int64_t page_bytes;      // K and V of one page, all paged layers
  int64_t ring_bytes;      // K and V of all rings of one sequence
  int64_t full_bytes;      // kv_full: n_slots * pages_per_slot * page_bytes
  int64_t window_bytes;    // kv_window: (n_slots + n_idle) * ring_bytes
  // Growth per token of context of one slot, for explanations.
  int64_t bytes_per_token;
};

// Returns the device memory that `n_slots` sequences of `n_ctx` tokens reserve
// for keys and values, plus rings for `n_idle` idle sessions.
//
//   row(layer)  = n_kv_heads * (RowBytes(k, head_dim) + RowBytes(v, head_dim))
//   kv_full     = slots * ceil(n_ctx / page) * page * sum of paged layers' rows
//   kv_window   = (slots + idle) * sum of ring layers' window * row
//
// Errors: kInvalidArgument for a count that is not positive or a head_dim that
// is not a multiple of the type's block; kOutOfRange if it overflows int64.
absl::StatusOr<KvBytes> KvCacheBytes(const ModelShape& shape, int64_t n_ctx,
                                     int64_t n_slots, int64_t n_idle,
                                     DType k_type, DType v_type);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_KV_CACHE_BYTES_H_
