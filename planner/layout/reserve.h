// The memory that some engines keep back because they must reserve before they
// know their buffers.
#ifndef PLIMSOLL_PLANNER_LAYOUT_RESERVE_H_
#define PLIMSOLL_PLANNER_LAYOUT_RESERVE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

// The memory that an engine keeps free beside weights and KV cache.
enum class ReservePolicy {
  kExact,     // the buffers themselves, laid out to the byte
  kDense,     // DenseReserve
  kWindowed,  // WindowedReserve
};

// max(total / 3, 2 GiB), in bytes.
int64_t DenseReserve(int64_t total_bytes);

// Floats that one token's activations take: 3 residual streams, queries and
// attention's output, keys and values, gate and up, and per-layer inputs.
// Errors: kOutOfRange on overflow.
absl::StatusOr<int64_t> FloatsPerToken(const ModelShape& shape);

// min(DenseReserve, max(2 GiB, total / 6) + 4,096 tokens' activations), in
// bytes, for a model that has layers with a window and gives them a head_dim of
// their own; DenseReserve for all others. Errors: kOutOfRange on overflow.
absl::StatusOr<int64_t> WindowedReserve(const ModelShape& shape,
                                        int64_t total_bytes);

// Bytes of one token's buffers and its logits. Errors: kOutOfRange on overflow.
absl::StatusOr<int64_t> TokenScratchBytes(const ModelShape& shape);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_RESERVE_H_
