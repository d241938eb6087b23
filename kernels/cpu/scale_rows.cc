// Multiplies every row by a factor of its own.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/scale_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "kernels/cpu/ops.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Scales rows [begin, end).
void ScaleRowRange(const ScaleRowsArgs& args, int64_t begin, int64_t end) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = begin; r < end; ++r) {
    float* const x = args.x + r * args.dim;
    const float factor = args.factors[r];
    const auto factors = hn::Set(d, factor);
    int64_t c = 0;
    for (; c + lanes <= args.dim; c += lanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, x + c), factors), d, x + c);
    }
    for (; c < args.dim; ++c) x[c] *= factor;
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(ScaleRowRange);

void ScaleRows(const ScaleRowsArgs& args, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(ScaleRowRange)(args, begin, end);
}

void ScaleRows(const ScaleRowsArgs& args, ThreadPool& pool) {
  pool.ParallelFor(
      args.n_rows, RowGrain(args.dim),
      [&](int64_t begin, int64_t end, int) { ScaleRows(args, begin, end); });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
