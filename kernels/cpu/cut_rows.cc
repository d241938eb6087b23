// Rows are cut some standard deviations above their means.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cut_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <cmath>

#include "hwy/highway.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Cuts rows [begin, end).
void CutRowRange(const CutRowsArgs& args, int64_t begin, int64_t end) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto n = static_cast<float>(args.dim);
  for (int64_t r = begin; r < end; ++r) {
    float* const x = args.x + r * args.dim;
    const float mean = Sum(x, args.dim) / n;
    const float deviation = std::sqrt(SumOfSquares(x, args.dim, mean) / n);
    const float cut = mean + args.deviations * deviation;
    const auto cuts = hn::Set(d, cut);
    int64_t c = 0;
    for (; c + lanes <= args.dim; c += lanes) {
      // Instructions for a maximum do not agree about NaN.
      const auto above = hn::Sub(hn::LoadU(d, x + c), cuts);
      const auto is_below = hn::Lt(above, hn::Zero(d));
      hn::StoreU(hn::IfThenElse(is_below, hn::Zero(d), above), d, x + c);
    }
    for (; c < args.dim; ++c) x[c] = x[c] - cut < 0 ? 0 : x[c] - cut;
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(CutRowRange);

void CutRows(const CutRowsArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.n_rows, RowGrain(args.dim),
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(CutRowRange)(args, begin, end);
                   });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
