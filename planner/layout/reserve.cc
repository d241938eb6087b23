#include "planner/layout/reserve.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/status_macros.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kLeastReserve = int64_t{2} << 30;
constexpr int64_t kWorkingSetTokens = 4'096;

absl::StatusOr<int64_t> FittingReserve(Checked value) {
  if (const auto number = value.Get()) return *number;
  return absl::OutOfRangeError("the reserve does not fit in int64 bytes");
}

// The floats of one token without per-layer inputs.
Checked LayerFloats(const ModelShape& shape) {
  int64_t head_dim = 0;
  int64_t n_kv_heads = 0;
  int64_t ffn = 0;
  for (const LayerShape& layer : shape.layers) {
    head_dim = std::max(head_dim, layer.head_dim);
    n_kv_heads = std::max(n_kv_heads, layer.n_kv_heads);
    const Checked experts =
        Checked(shape.n_experts_used) * layer.expert_ffn_dim;
    ffn = std::max({ffn, layer.ffn_dim, experts.Get().value_or(0)});
  }
  return Checked(3) * shape.model_dim + Checked(2) * shape.n_heads * head_dim +
         Checked(2) * n_kv_heads * head_dim + Checked(2) * ffn;
}

}  // namespace

int64_t DenseReserve(int64_t total_bytes) {
  return std::max(total_bytes / 3, kLeastReserve);
}

absl::StatusOr<int64_t> FloatsPerToken(const ModelShape& shape) {
  Checked floats = LayerFloats(shape);
  if (shape.ple_dim > 0) {
    floats += Checked(2) * shape.n_layers * shape.ple_dim + shape.ple_dim +
              shape.model_dim;
  }
  return FittingReserve(floats);
}

absl::StatusOr<int64_t> WindowedReserve(const ModelShape& shape,
                                        int64_t total_bytes) {
  const int64_t dense = DenseReserve(total_bytes);
  const bool slides =
      std::any_of(shape.layers.begin(), shape.layers.end(),
                  [](const LayerShape& layer) { return layer.window > 0; });
  if (!shape.has_window_head_dim || !slides) return dense;
  ASSIGN_OR_RETURN(const int64_t floats, FloatsPerToken(shape));
  ASSIGN_OR_RETURN(
      const int64_t windowed,
      FittingReserve(Checked(kWorkingSetTokens) * kFloatBytes * floats +
                     std::max(kLeastReserve, total_bytes / 6)));
  return std::min(dense, windowed);
}

absl::StatusOr<int64_t> TokenScratchBytes(const ModelShape& shape) {
  // Layers after these have the logits where these are not the last.
  const int64_t n_logits = shape.has_last_layer ? shape.vocab_size : 0;
  return FittingReserve((LayerFloats(shape) + n_logits) * kFloatBytes);
}

}  // namespace plimsoll::planner
