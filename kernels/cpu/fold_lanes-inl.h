// Sums and maxima over the lanes of four vectors at once. Included once per
// instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_FOLD_LANES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_FOLD_LANES_INL_H_
#undef PLIMSOLL_KERNELS_CPU_FOLD_LANES_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_FOLD_LANES_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DI4 = hn::FixedTag<int32_t, 4>;
using VI4 = hn::Vec<DI4>;

struct TakeMaximum {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Max(a, b);
  }
};

struct TakeSum {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};

// Lane i of the result is `op` over all lanes 4k + i of `v`.
template <class Op, class D>
HWY_INLINE VI4 FoldFours(D /*d*/, hn::Vec<D> v, Op op) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return FoldFours(half, op(hn::LowerHalf(half, v), hn::UpperHalf(half, v)),
                     op);
  }
}

// `op` over all lanes 4k + i of the result is `op` over all lanes of v[i].
template <class Op, class D>
HWY_INLINE hn::Vec<D> FoldToFours(D d, const hn::Vec<D> (&v)[4], Op op) {
  const hn::Repartition<int64_t, D> wide;
  const auto both = [&](hn::Vec<D> a, hn::Vec<D> b) HWY_ATTR {
    return op(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  };
  const auto low = hn::BitCast(wide, both(v[0], v[1]));
  const auto high = hn::BitCast(wide, both(v[2], v[3]));
  return op(hn::BitCast(d, hn::InterleaveLower(wide, low, high)),
            hn::BitCast(d, hn::InterleaveUpper(wide, low, high)));
}

// Lane i of the result is `op` over all lanes of v[i].
template <class Op, class D>
HWY_INLINE VI4 FoldLanes(D d, const hn::Vec<D> (&v)[4], Op op) {
  return FoldFours(d, FoldToFours(d, v, op), op);
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
