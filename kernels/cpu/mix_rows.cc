// Sums of arrays, in which every row has weights of its own.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mix_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "kernels/cpu/ops.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace {

// Mixes as many columns of row r as `d` has lanes, from column c on. All of
// them are read before any is written.
template <class D>
void MixColumns(D d, const MixRowsArgs& args, int64_t r, int64_t c) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t array = args.n_rows * args.dim;
  const int64_t at = r * args.dim + c;
  float given[kMaxMixed * 16];
  const auto minus =
      args.minus == nullptr ? hn::Zero(d) : hn::LoadU(d, args.minus + at);
  for (int64_t j = 0; j < args.n_in; ++j) {
    const auto y = hn::LoadU(d, args.y + j * array + at);
    hn::StoreU(hn::Sub(y, minus), d, given + j * lanes);
  }
  for (int64_t i = 0; i < args.n_out; ++i) {
    auto sum =
        args.x == nullptr ? hn::Zero(d) : hn::LoadU(d, args.x + i * array + at);
    for (int64_t j = 0; j < args.n_in; ++j) {
      const auto weight = hn::Set(d, args.WeightOf(r, i, j));
      sum = hn::MulAdd(weight, hn::LoadU(d, given + j * lanes), sum);
    }
    hn::StoreU(sum, d, args.out + i * array + at);
  }
}

}  // namespace

// Mixes rows [begin, end).
void MixRowRange(const MixRowsArgs& args, int64_t begin, int64_t end) {
  const hn::CappedTag<float, 16> d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = begin; r < end; ++r) {
    int64_t c = 0;
    for (; c + lanes <= args.dim; c += lanes) MixColumns(d, args, r, c);
    for (; c < args.dim; ++c) MixColumns(one, args, r, c);
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(MixRowRange);

void MixRows(const MixRowsArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.n_rows, RowGrain(args.dim * args.n_out),
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(MixRowRange)(args, begin, end);
                   });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
