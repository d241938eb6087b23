// Root mean square normalisation, of a row or of what it is less its mean, a
// row at a time.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rms_norm.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cmath>

#include "hwy/highway.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_groups.h"
#include "kernels/cpu/row_sums-inl.h"
#include "kernels/quant/packed_row.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void PackBlocks(const PackActivationsArgs& args, int64_t begin, int64_t end);

namespace {

// Writes (x - mean) * scale, where `scale` is the reciprocal of its size, with
// the size of args.like.
void ScaleRow(const float* x, float mean, float scale, const RmsNormArgs& args,
              float* out) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto n = static_cast<size_t>(args.dim);
  const auto v_mean = hn::Set(d, mean);
  const auto v_scale = hn::Set(d, scale);
  const auto v_out_scale = hn::Set(d, args.scale);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto y = hn::Mul(hn::Sub(hn::LoadU(d, x + i), v_mean), v_scale);
    if (args.weight != nullptr) y = hn::Mul(y, hn::LoadU(d, args.weight + i));
    if (args.accumulate) y = hn::Add(hn::LoadU(d, out + i), y);
    hn::StoreU(hn::Mul(y, v_out_scale), d, out + i);
  }
  for (; i < n; ++i) {
    float y = (x[i] - mean) * scale;
    if (args.weight != nullptr) y *= args.weight[i];
    if (args.accumulate) y += out[i];
    out[i] = y * args.scale;
  }
}

}  // namespace

void RmsNormRange(const RmsNormArgs& args, int64_t begin, int64_t end) {
  const auto n = static_cast<float>(args.dim);
  for (int64_t r = begin; r < end; ++r) {
    const int64_t at = r * args.dim;
    const float* const x = args.x + r * args.XStride();
    const float mean = args.subtracts_mean ? Sum(x, args.dim) / n : 0.0f;
    float scale =
        1.0f / std::sqrt(SumOfSquares(x, args.dim, mean) / n + args.eps);
    if (args.like != nullptr) {
      scale *= std::sqrt(SumOfSquares(args.like + at, args.dim, 0) / n);
    }
    ScaleRow(x, mean, scale, args, args.out + at);
    if (args.packed == nullptr) continue;
    const int64_t n_blocks = args.dim / kActivationBlock;
    PackBlocks({args.out, args.n_rows, args.dim, args.packed}, r * n_blocks,
               (r + 1) * n_blocks);
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(RmsNormRange);

namespace {

int64_t NormGrain(const RmsNormArgs& args) {
  const int64_t grain = RowGrain(args.dim);
  return args.packed == nullptr ? grain : PackingGrain(args.n_rows, grain);
}

}  // namespace

void RmsNorm(const RmsNormArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.n_rows, NormGrain(args),
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(RmsNormRange)(args, begin, end);
                   });
}

void AddNorm(const AddNormArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.norm.n_rows, NormGrain(args.norm),
                   [&](int64_t begin, int64_t end, int) {
                     for (int64_t r = begin; r < end; ++r) {
                       HWY_DYNAMIC_DISPATCH(RmsNormRange)(args.add, r, r + 1);
                       HWY_DYNAMIC_DISPATCH(RmsNormRange)(args.norm, r, r + 1);
                     }
                   });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
