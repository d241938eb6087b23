// Bytes of keys and values for (shape, n_ctx, sequences, element types).
#ifndef PLIMSOLL_PLANNER_LAYOUT_KV_CACHE_BYTES_H_
#define PLIMSOLL_PLANNER_LAYOUT_KV_CACHE_BYTES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "planner/layout/device_profile.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

// How many cells a sliding-window layer keeps for a sequence.
enum class RingRule {
  kExact,             // `window`
  kFull,              // as many as a full layer
  kWindowPlusUbatch,  // window + n_ubatch; all layers in multiples of 256
  kWindowPlusTokens,  // window + a constant
};

// How an engine lays out its KV cache; the defaults are Plimsoll's own.
struct KvRules {
  RingRule ring = RingRule::kExact;
  int64_t ring_tokens = 0;  // beyond the window, for kWindowPlus*
  // Of all slots together, at least a slot's own n_ctx; 0 = each has its own.
  int64_t pool_tokens = 0;
  bool has_pages = true;  // false: contexts are counted in single tokens
  // Without it the values of every layer are as wide as those of the widest.
  bool has_flash_attention = true;
  // How every layer's keys, and its values, are rounded: a buffer each.
  AllocationRule allocation = AllocationRule::kExact;
  int64_t granularity_bytes = 0;
};

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
  int64_t n_pages;         // of all slots: the pool's
  int64_t page_bytes;      // K and V of one page, all paged layers
  int64_t ring_bytes;      // K and V of all rings of one sequence
  int64_t ring_row_bytes;  // K and V of one token in all rings
  int64_t full_bytes;      // kv_full: n_pages * page_bytes
  int64_t window_bytes;    // kv_window: (n_slots + n_idle) * ring_bytes
  // Growth per token of context of one slot, for explanations.
  int64_t bytes_per_token;

  // Bytes of the pages and rings of one slot with a full context: at most
  // full_bytes + window_bytes, so the sum does not overflow.
  int64_t SlotBytes() const { return pages_per_slot * page_bytes + ring_bytes; }
};

// What the KV bytes of a model depend on, so that many contexts can be asked
// for at a cost that does not grow with its layers.
class KvModel {
 public:
  // Errors: kInvalidArgument for a count that is not positive or a head_dim
  // that is not a multiple of a type's block.
  static absl::StatusOr<KvModel> Create(const ModelShape& shape, DType k_type,
                                        DType v_type, const KvRules& rules);

  // The device memory that `n_slots` sequences of `n_ctx` tokens reserve for
  // keys and values, plus rings for `n_idle` idle sessions.
  //
  //   row(layer)  = n_kv_heads * (RowBytes(k, head_dim) + RowBytes(v,
  //   head_dim)) kv_full     = slots * ceil(n_ctx / page) * page * sum of paged
  //   rows kv_window   = (slots + idle) * sum of ring layers' cells * row
  //
  // Errors: kInvalidArgument for a count that is not positive; kOutOfRange if
  // it overflows int64.
  absl::StatusOr<KvBytes> Bytes(int64_t n_ctx, int64_t n_slots,
                                int64_t n_idle) const;

 private:
  // Layers that are alike.
  struct Group {
    int64_t k_row;  // bytes of one token's keys
    int64_t v_row;
    int64_t window;  // 0 = full
    int64_t n_layers;
  };

  static absl::StatusOr<Group> GroupOf(const LayerShape& layer, DType k_type,
                                       DType v_type);
  void Add(const Group& layer);

  KvRules rules_;
  std::vector<Group> groups_;
};

// KvModel::Create and Bytes at once.
absl::StatusOr<KvBytes> KvCacheBytes(const ModelShape& shape, int64_t n_ctx,
                                     int64_t n_slots, int64_t n_idle,
                                     DType k_type, DType v_type,
                                     const KvRules& rules = {});

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_KV_CACHE_BYTES_H_
