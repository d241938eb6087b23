// Bytes of keys, values and states, given shape, n_ctx, sequences and element
// types.
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
  kFull,              // every token, like a full-attention layer
  kWindowPlusUbatch,  // window + n_ubatch; all layers in multiples of 256
  kWindowPlusTokens,  // window + a constant
};

// How an engine lays out its KV cache; the defaults are Plimsoll's own.
struct KvRules {
  RingRule ring = RingRule::kExact;
  int64_t ring_tokens = 0;  // in addition, for kWindowPlus*
  // Tokens of the pool for all slots, at least one slot's n_ctx; 0 = each slot
  // has its own pages.
  int64_t pool_tokens = 0;
  bool has_pages = true;  // false: contexts are counted in single tokens
  // A sequence also keeps its state after each of this many newest tokens,
  // which may be taken back.
  int64_t n_draft = 0;
  // If false, the values of every layer are as wide as those of the widest
  // layer.
  bool has_flash_attention = true;
  // How the sizes of buffers are rounded. Each layer has one buffer for keys
  // and one for values.
  AllocationRule allocation = AllocationRule::kExact;
  int64_t granularity_bytes = 0;
};

// Tokens of one page of a context of `n_ctx` tokens: 64, or for a short context
// n_ctx rounded up to 16. Requires n_ctx > 0.
int64_t PageTokens(int64_t n_ctx);

// True if a layer with a window of `window` tokens keeps a ring of exactly
// `window` cells. False if the whole (page-rounded) context is not longer than
// the window; the layer then has pages like a full-attention layer.
bool HasRing(int64_t window, int64_t n_ctx);

// One entry of a slot's page table on the host. The worker's KvCache asserts
// that its entries have this size.
inline constexpr int64_t kPageEntryBytes = 24;
// The host's record of one page: its users, or its place among the free pages;
// its owner; and an entry in the list of pages to be forgotten. The worker's
// KvCache asserts that its records have this size. There is at most one page
// for each entry of a slot's table. A pool may have fewer, but plans do not
// count on it: its number of pages may shrink as the context grows.
inline constexpr int64_t kPageStateBytes = 12;

// The bytes of the KV cache by use. All layers that own KV are counted. "Full"
// layers are those with pages, "window" layers those with rings.
struct KvBytes {
  int64_t page_tokens;      // tokens of one page
  int64_t pages_per_slot;   // ceil(n_ctx / page_tokens)
  int64_t n_pages;          // the pool's, for all slots
  int64_t page_bytes;       // K and V of one page, all paged layers
  int64_t ring_bytes;       // K and V of all rings of one sequence
  int64_t ring_row_bytes;   // K and V of one token in all rings
  int64_t full_bytes;       // kv_full: n_pages * page_bytes
  int64_t window_bytes;     // kv_window: (n_slots + n_idle) * ring_bytes
  int64_t state_bytes;      // one state of all recurrent layers, in float32
  int64_t n_states;         // n_slots * (1 + n_draft) + n_idle
  int64_t all_state_bytes;  // state: n_states * state_bytes
  // Growth for each token of context in one slot, for explanations.
  int64_t bytes_per_token;

  // Bytes of the rings and the state of one idle session.
  int64_t PlaceBytes() const { return ring_bytes + state_bytes; }

  // Bytes of the pages, rings and state of one slot with a full context: at
  // most those of all slots, so the sum does not overflow.
  int64_t SlotBytes() const {
    return pages_per_slot * page_bytes + PlaceBytes();
  }
};

// The facts of a model that decide its KV bytes. Layers that are alike are one
// group, so a query for one context costs the same however many layers there
// are.
class KvModel {
 public:
  // Errors: kInvalidArgument for a count that is not positive, or a head_dim
  // that is not a multiple of a type's block.
  static absl::StatusOr<KvModel> Create(const ModelShape& shape, DType k_type,
                                        DType v_type, const KvRules& rules);

  // The device memory that `n_slots` sequences of `n_ctx` tokens reserve for
  // keys, values and states, plus rings and states for `n_idle` idle sessions.
  //
  //   row(layer) = n_kv_heads * (k_row + v_row), where a row of keys is
  //                RowBytes(type, head_dim), and one of values as long, or
  //                nothing in a layer of latent attention
  //   kv_full    = slots * ceil(n_ctx / page) * page * sum of paged rows
  //   kv_window  = (slots + idle) * sum of ring layers' cells * row
  //   state      = (slots * (1 + draft) + idle) * recurrent layers * 4 *
  //                RecurrentShape::StateFloats
  //
  // Errors: kInvalidArgument for a count that is not positive; kOutOfRange if
  // it overflows int64.
  absl::StatusOr<KvBytes> Bytes(int64_t n_ctx, int64_t n_slots,
                                int64_t n_idle) const;

 private:
  // The number of layers that are alike.
  struct Group {
    int64_t k_row;  // bytes of one token's keys
    int64_t v_row;
    int64_t window;  // 0 = full attention
    int64_t n_layers;
  };

  static absl::StatusOr<Group> GroupOf(const LayerShape& layer, DType k_type,
                                       DType v_type);
  void Add(const Group& layer);

  KvRules rules_;
  std::vector<Group> groups_;
  int64_t state_bytes_ = 0;  // bytes of all recurrent layers
};

// What a KV cache has room for, and how its rows are stored.
struct KvCacheOptions {
  int64_t n_ctx = 0;  // tokens of one slot; must be positive
  int64_t n_slots = 1;
  int64_t n_idle = 0;  // idle sessions, which keep rings and states
  DType k_type = DType::kF16;
  DType v_type = DType::kF16;
  KvRules rules = {};
};

// Calls KvModel::Create and Bytes.
absl::StatusOr<KvBytes> KvCacheBytes(const ModelShape& shape,
                                     const KvCacheOptions& options);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_KV_CACHE_BYTES_H_
