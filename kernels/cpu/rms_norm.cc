// Root mean square normalisation, a row at a time.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rms_norm.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cmath>

#include "hwy/highway.h"
#include "kernels/cpu/mat_mul/row_groups.h"
#include "kernels/cpu/ops.h"
#include "kernels/quant/packed_row.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void PackBlocks(const PackActivationsArgs& args, int64_t begin, int64_t end);

namespace {

// Two accumulators hide the latency; the order of additions depends on the
// lane count alone.
float SumOfSquares(const float* HWY_RESTRICT x, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto x0 = hn::LoadU(d, x + i);
    const auto x1 = hn::LoadU(d, x + i + lanes);
    sum0 = hn::MulAdd(x0, x0, sum0);
    sum1 = hn::MulAdd(x1, x1, sum1);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

float MeanSquare(const float* x, int64_t n) {
  return SumOfSquares(x, static_cast<size_t>(n)) / static_cast<float>(n);
}

// Writes a row times `scale`: the reciprocal of its size, with the size of
// args.like.
void ScaleRow(const float* x, float scale, const RmsNormArgs& args,
              float* out) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto n = static_cast<size_t>(args.dim);
  const auto v_scale = hn::Set(d, scale);
  const auto v_out_scale = hn::Set(d, args.scale);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto y = hn::Mul(hn::LoadU(d, x + i), v_scale);
    if (args.weight != nullptr) y = hn::Mul(y, hn::LoadU(d, args.weight + i));
    if (args.accumulate) y = hn::Add(hn::LoadU(d, out + i), y);
    hn::StoreU(hn::Mul(y, v_out_scale), d, out + i);
  }
  for (; i < n; ++i) {
    float y = x[i] * scale;
    if (args.weight != nullptr) y *= args.weight[i];
    if (args.accumulate) y += out[i];
    out[i] = y * args.scale;
  }
}

}  // namespace

void RmsNormRange(const RmsNormArgs& args, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const int64_t at = r * args.dim;
    float scale =
        1.0f / std::sqrt(MeanSquare(args.x + at, args.dim) + args.eps);
    if (args.like != nullptr) {
      scale *= std::sqrt(MeanSquare(args.like + at, args.dim));
    }
    ScaleRow(args.x + at, scale, args, args.out + at);
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
