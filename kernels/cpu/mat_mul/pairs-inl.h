// The integer product of weights and activations: two adjacent columns of each
// row of a panel. Included once per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_PAIRS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_PAIRS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_PAIRS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_PAIRS_INL_H_
#endif

#include <cstring>

#include "kernels/cpu/mat_mul/panel-inl.h"

// Unrolls the eight turns over a block's pairs. On ARM, g++ would load early
// for all eight turns and spill what it loaded. Sanitizers check every access
// of every turn, which takes twice as long to compile.
#if HWY_ARCH_ARM_A64 || HWY_IS_ASAN || HWY_IS_TSAN
#define PLIMSOLL_UNROLL_PAIRS HWY_UNROLL(1)
#else
#define PLIMSOLL_UNROLL_PAIRS HWY_UNROLL(8)
#endif

// AVX-VNNI is only for g++: the assembler of clang accepts only instructions
// that a function's attributes name.
#undef PLIMSOLL_HAVE_AVX_VNNI
#if HWY_TARGET == HWY_AVX2 && HWY_COMPILER_GCC_ACTUAL
#define PLIMSOLL_HAVE_AVX_VNNI 1
#else
#define PLIMSOLL_HAVE_AVX_VNNI 0
#endif

// AVX3_DL is detected with VNNI, but not every version of Highway has VNNI
// among that path's attributes. Files that call AddPairs begin in the same way.
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
#elif HWY_ARCH_ARM_A64
  // The widening product has four lanes and takes its activation from a lane,
  // so 4 multiply-accumulates per instruction are the limit. The columns of a
  // pair are parted first, once for all activation rows. In total, 32 columns
  // of Q8_0 and 4 rows take 1,002 instructions for 2,048 multiply-accumulates
  // (g++ 12).
  const int16x4_t both = vreinterpret_s16_s32(vdup_n_s32(pair));
  for (size_t j = 0; j < kVecs; j += 2) {
    const int16x8_t even = vuzp1q_s16(w.v[j].raw, w.v[j + 1].raw);
    const int16x8_t odd = vuzp2q_s16(w.v[j].raw, w.v[j + 1].raw);
    int32x4_t first = acc.v[j].raw;
    int32x4_t second = acc.v[j + 1].raw;
    first = vmlal_lane_s16(first, vget_low_s16(even), both, 0);
    first = vmlal_lane_s16(first, vget_low_s16(odd), both, 1);
    second = vmlal_high_lane_s16(second, even, both, 0);
    second = vmlal_high_lane_s16(second, odd, both, 1);
    acc.v[j] = VI(first);
    acc.v[j + 1] = VI(second);
  }
#else
  // Here the widening product would reorder its lanes.
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

// AddPairs as a type, for templates.
struct PairDot {
  static HWY_INLINE void Add(const Pairs& w, const uint8_t* a, RowSums& acc) {
    AddPairs(w, a, acc);
  }
};

#if PLIMSOLL_HAVE_AVX_VNNI
// Written in assembly: with the instruction among the function's attributes,
// the compiler would use it in code for CPUs that do not have it. Measured on a
// Zen 5 beside vpmaddwd and vpaddd: 1.7 times as fast for 512 rows.
struct AvxVnniDot {
  static HWY_INLINE void Add(const Pairs& w, const uint8_t* a, RowSums& acc) {
    int32_t pair;
    std::memcpy(&pair, a, sizeof(pair));
    const VI both = hn::Set(DI(), pair);
    for (size_t j = 0; j < kVecs; ++j) {
      asm("%{vex%} vpdpwssd %2, %1, %0"
          : "+x"(acc.v[j].raw)
          : "x"(w.v[j].raw), "x"(both.raw));
    }
  }
};
#endif

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
