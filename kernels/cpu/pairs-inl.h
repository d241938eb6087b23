// The integer product that weights meet activations in: two adjacent columns of
// each row of a panel. Included once per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_PAIRS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_PAIRS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_PAIRS_INL_H_
#endif

#include <cstring>

#include "kernels/cpu/panel-inl.h"

// VNNI belongs to AVX3_DL's detection, but not to every Highway's own
// attributes of that path. Files that call AddPairs begin in the same way.
#if HWY_TARGET == HWY_AVX3_DL
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

// acc += w[row][0] * a[0] + w[row][1] * a[1] for two int16 values at `a`.
HWY_INLINE void AddPairs(const Pairs& w, const uint8_t* a, RowSums& acc) {
  int32_t pair;
  std::memcpy(&pair, a, sizeof(pair));
#if HWY_TARGET == HWY_AVX3_DL
  acc.v[0].raw =
      _mm512_dpwssd_epi32(acc.v[0].raw, w.v[0].raw, _mm512_set1_epi32(pair));
#elif HWY_ARCH_X86
  const VS both = hn::BitCast(DS(), hn::Set(DI(), pair));
  for (size_t j = 0; j < kVecs; ++j) {
    VI unused = hn::Zero(DI());
    acc.v[j] =
        hn::ReorderWidenMulAccumulate(DI(), w.v[j], both, acc.v[j], unused);
  }
#else
  // Where the widening product reorders its lanes.
  const VI even = hn::Set(DI(), static_cast<int16_t>(pair & 0xFFFF));
  const VI odd = hn::Set(DI(), pair >> 16);
  for (size_t j = 0; j < kVecs; ++j) {
    const VI both = hn::BitCast(DI(), w.v[j]);
    const VI low = hn::ShiftRight<16>(hn::ShiftLeft<16>(both));
    const VI high = hn::ShiftRight<16>(both);
    acc.v[j] =
        hn::Add(acc.v[j], hn::Add(hn::Mul(low, even), hn::Mul(high, odd)));
  }
#endif
}

HWY_INLINE float LoadFloat(const uint8_t* from) {
  float value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
