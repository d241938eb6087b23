// Adds a bias to every row.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/add_bias.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "kernels/cpu/ops.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Adds the bias to rows [begin, end).
void AddBiasToRows(const AddBiasArgs& args, int64_t begin, int64_t end) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = begin; r < end; ++r) {
    float* const x = args.x + r * args.dim;
    int64_t c = 0;
    for (; c + lanes <= args.dim; c += lanes) {
      const auto sum =
          hn::Add(hn::LoadU(d, x + c), hn::LoadU(d, args.bias + c));
      hn::StoreU(sum, d, x + c);
    }
    for (; c < args.dim; ++c) x[c] += args.bias[c];
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(AddBiasToRows);

void AddBias(const AddBiasArgs& args, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(AddBiasToRows)(args, begin, end);
}

void AddBias(const AddBiasArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.n_rows, RowGrain(args.dim),
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(AddBiasToRows)(args, begin, end);
                   });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
