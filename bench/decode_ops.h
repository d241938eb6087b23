// The operations of a decode step that need no choice: norms, products, heads.
// The benchmark's step and the tests' step are made of them.
#ifndef PLIMSOLL_BENCH_DECODE_OPS_H_
#define PLIMSOLL_BENCH_DECODE_OPS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace plimsoll::kernels {

// The shape of a step and its buffers. Each has a row for every sequence:
// `x` and `normed` model_dim floats, `q` n_heads * head_dim, `k` and `v`
// n_kv_heads * head_dim, `angles` head_dim. `norm` is one row of as many floats
// as the widest of `x` and a head.
struct DecodeOps {
  int64_t n_heads;
  int64_t n_kv_heads;
  int64_t head_dim;
  int64_t model_dim;
  float scale;  // scale of scores
  float eps;    // epsilon of norms
  const float* norm;
  float* x;
  float* normed;
  std::byte* packed;
  float* q;
  float* k;
  float* v;
  float* angles;

  // The residual of `n_rows`, normed and packed for products.
  absl::Status Norm(Backend& backend, int64_t n_rows) const {
    return backend.RmsNorm(
        {x, norm, normed, n_rows, model_dim, eps, false, packed});
  }

  // A product of what Norm, attention or an activation has packed last.
  MatMulArgs Product(const WeightMatrix& weights, float* out, int64_t n_rows,
                     bool adds) const {
    return {weights, normed, packed, out, n_rows, adds};
  }

  // Where the keys and values of a step go.
  struct Places {
    std::byte* base;
    const int64_t* offsets;  // keys of every row, then values; and so on
    int64_t n_places = 1;    // each row's places
  };
  // Norms and rotates the heads, and stores keys and values as F16.
  absl::Status PrepareHeads(Backend& backend, int64_t n_rows,
                            const Places& places) const {
    return backend.PrepareHeads({.q = q,
                                 .q_prefix = nullptr,
                                 .k = k,
                                 .v = v,
                                 .q_norm = norm,
                                 .k_norm = norm,
                                 .angles = angles,
                                 .prefix_angles = nullptr,
                                 .n_rows = n_rows,
                                 .n_heads = n_heads,
                                 .n_kv_heads = n_kv_heads,
                                 .head_dim = head_dim,
                                 .n_rot = head_dim,
                                 .style = RopeStyle::kNeox,
                                 .eps = eps,
                                 .k_type = DType::kF16,
                                 .v_type = DType::kF16,
                                 .base = places.base,
                                 .offsets = places.offsets,
                                 .n_places = places.n_places});
  }

  // Attention of these heads to F16 keys and values; the caller says to which.
  AttentionArgs Attention(float* out) const {
    AttentionArgs args = {};
    args.q = args.q_prefix = q;
    args.out = out;
    args.n_heads = n_heads;
    args.n_kv_heads = n_kv_heads;
    args.head_dim = head_dim;
    args.scale = scale;
    args.k_type = args.v_type = DType::kF16;
    return args;
  }
};

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_BENCH_DECODE_OPS_H_
