// Hadamard transforms: butterflies of lanes, then of vectors.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention/hadamard.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <cmath>

#include "hwy/highway.h"
#include "kernels/cpu/ops.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using HadamardTag = hn::CappedTag<float, 16>;
using HadamardVector = hn::Vec<HadamardTag>;
constexpr auto kHadamardLanes =
    static_cast<int64_t>(hn::MaxLanes(HadamardTag()));

// Pairs are lanes at a distance: the lower one becomes their sum, and the upper
// one their difference. `swapped` has the other lane of each pair.
HWY_INLINE HadamardVector Butterflies(HadamardVector x, HadamardVector swapped,
                                      int32_t distance) {
  const HadamardTag d;
  const hn::RebindToSigned<HadamardTag> di;
  const auto is_upper = hn::TestBit(hn::Iota(di, 0), hn::Set(di, distance));
  return hn::Add(swapped,
                 hn::IfThenElse(hn::RebindMask(d, is_upper), hn::Neg(x), x));
}

// The butterflies of all distances within a vector.
HWY_INLINE HadamardVector TransformLanes(HadamardVector x) {
  const HadamardTag d;
  x = Butterflies(x, hn::Reverse2(d, x), 1);
  x = Butterflies(x, hn::Shuffle1032(x), 2);
#if HWY_MAX_BYTES >= 32
  x = Butterflies(x, hn::SwapAdjacentBlocks(x), 4);
#endif
#if HWY_MAX_BYTES >= 64
  x = Butterflies(x, hn::ConcatLowerUpper(d, x, x), 8);
#endif
  return x;
}

void Transform(int64_t width, float* x) {
  const HadamardTag d;
  const auto scale = hn::Set(d, 1.0f / std::sqrt(static_cast<float>(width)));
  for (int64_t i = 0; i < width; i += kHadamardLanes) {
    hn::StoreU(TransformLanes(hn::Mul(hn::LoadU(d, x + i), scale)), d, x + i);
  }
  for (int64_t distance = kHadamardLanes; distance < width; distance *= 2) {
    for (int64_t begin = 0; begin < width; begin += 2 * distance) {
      for (int64_t i = begin; i < begin + distance; i += kHadamardLanes) {
        const auto a = hn::LoadU(d, x + i);
        const auto b = hn::LoadU(d, x + i + distance);
        hn::StoreU(hn::Add(a, b), d, x + i);
        hn::StoreU(hn::Sub(a, b), d, x + i + distance);
      }
    }
  }
}

}  // namespace

// Transforms rows [begin, end).
void HadamardRange(const HadamardArgs& args, int64_t begin, int64_t end) {
  for (int64_t at = begin * args.dim; at < end * args.dim; at += args.width) {
    Transform(args.width, args.x + at);
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels::cpu {

HWY_EXPORT(HadamardRange);

void Hadamard(const HadamardArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.n_rows, RowGrain(args.dim),
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(HadamardRange)(args, begin, end);
                   });
}

}  // namespace plimsoll::kernels::cpu
#endif  // HWY_ONCE
