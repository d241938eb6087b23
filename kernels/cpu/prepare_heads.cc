// What lies between a layer's products and its attention, a row at a time:
// heads are normed, rotated and stored while they are in the first-level cache.
// The parts are those of the operations by themselves, and so are the bits.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/prepare_heads.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "kernels/cpu/ops.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

// Rows [begin, end) of these operations.
void RmsNormRange(const RmsNormArgs& args, int64_t begin, int64_t end);
void RopeRange(const RopeArgs& args, int64_t begin, int64_t end);
void StoreRow(const float* x, int64_t n, DType dtype, std::byte* out);

namespace {

// Heads of queries or of keys.
struct Heads {
  float* x;
  const float* norm;
  int64_t n_heads;
};

void NormRow(const PrepareHeadsArgs& args, const Heads& heads, int64_t row) {
  if (heads.norm == nullptr) return;
  const RmsNormArgs norm = {.x = heads.x,
                            .weight = heads.norm,
                            .out = heads.x,
                            .n_rows = args.n_rows * heads.n_heads,
                            .dim = args.head_dim,
                            .eps = args.eps,
                            .accumulate = false};
  RmsNormRange(norm, row * heads.n_heads, (row + 1) * heads.n_heads);
}

void RotateRow(const PrepareHeadsArgs& args, const Heads& heads,
               const float* angles, int64_t row, float* out) {
  const RopeArgs rope = {.x = heads.x,
                         .angles = angles,
                         .out = out,
                         .n_rows = args.n_rows,
                         .n_heads = heads.n_heads,
                         .head_dim = args.head_dim,
                         .n_rot = args.n_rot,
                         .style = args.style};
  RopeRange(rope, row, row + 1);
}

}  // namespace

void PrepareHeadsRange(const PrepareHeadsArgs& args, int64_t begin,
                       int64_t end) {
  const Heads q = {args.q, args.q_norm, args.n_heads};
  const Heads k = {args.k, args.k_norm, args.n_kv_heads};
  const int64_t kv_dim = args.n_kv_heads * args.head_dim;
  for (int64_t row = begin; row < end; ++row) {
    NormRow(args, q, row);
    if (args.q_prefix != nullptr) {
      RotateRow(args, q, args.prefix_angles, row, args.q_prefix);
    }
    RotateRow(args, q, args.angles, row, args.q);
    NormRow(args, k, row);
    RotateRow(args, k, args.angles, row, args.k);
    for (int64_t place = 0; place < args.n_places; ++place) {
      const int64_t* offset = args.offsets + 2 * place * args.n_rows + row;
      StoreRow(args.k + row * kv_dim, kv_dim, args.k_type,
               args.base + offset[0]);
      StoreRow(args.v + row * kv_dim, kv_dim, args.v_type,
               args.base + offset[args.n_rows]);
    }
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(PrepareHeadsRange);

void PrepareHeads(const PrepareHeadsArgs& args, ThreadPool& pool) {
  const int64_t n_heads = args.n_heads + 2 * args.n_kv_heads;
  const int64_t grain = RowGrain(n_heads * args.head_dim);
  pool.ParallelFor(args.n_rows, grain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(PrepareHeadsRange)(args, begin, end);
  });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
