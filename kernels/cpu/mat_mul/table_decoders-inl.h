// Decoders of the types whose quants are indices into a table of 16 values.
// Included once per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_TABLE_DECODERS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_TABLE_DECODERS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_TABLE_DECODERS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_TABLE_DECODERS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/mat_mul/panel-inl.h"
#include "kernels/cpu/mat_mul/quad_decoders-inl.h"
#include "kernels/cpu/mat_mul/row_decoders-inl.h"
#include "kernels/cpu/pack_weights.h"
#include "kernels/quant/tables.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

// Decodes nibbles that are indices into a table of 16 values.
HWY_INLINE void DecodeTable(const int8_t* table, const uint8_t* nibbles, int i,
                            Pairs& low, Pairs& high) {
  const hn::Rebind<uint8_t, DS> db;
  for (size_t j = 0; j < kVecs; ++j) {
    const auto both = hn::LoadU(db, nibbles + i * 32 + j * 2 * kLanes);
    low.v[j] = LookUp(DS(), table, hn::And(both, hn::Set(db, 15)));
    high.v[j] = LookUp(DS(), table, hn::ShiftRight<4>(both));
  }
}

struct DecoderMxfp4 {
  using Row = RowMxfp4;
  static constexpr int64_t kSubBlocks = 1;
  static constexpr int64_t kBlockBytes = 16 * 17;
  static constexpr bool kHasMin = false;
  static constexpr bool kHasHalfScales = false;

  // BitsOfHalfE8M0 (tables.h) of each row's exponent.
  static HWY_INLINE void LoadScales(const Columns& at, Scales& scales) {
    const RowSums e = LoadU8(at.block);
    const VI one = hn::Set(DI(), 1);
    for (size_t j = 0; j < kVecs; ++j) {
      const VI normal = hn::ShiftLeft<23>(hn::Sub(e.v[j], one));
      const VI smallest = hn::ShiftLeft<21>(hn::Add(hn::Min(e.v[j], one), one));
      scales.d[0].v[j] = hn::BitCast(DF(), hn::Max(normal, smallest));
    }
  }
  static HWY_INLINE void Decode(const Columns& at, int i, Pairs& low,
                                Pairs& high) {
    DecodeTable(kDoubledE2M1, at.block + 16, i, low, high);
  }
};

struct DecoderNvfp4 {
  static constexpr int64_t kSubBlocks = 2;
  static constexpr int64_t kBlockBytes = 16 * 36;
  static constexpr bool kHasMin = false;
  static constexpr bool kHasHalfScales = true;

  // HalfOfUE4M3 (tables.h) of each row's number.
  static HWY_INLINE VF HalfOf(VI x) {
    const VI seven_bits = hn::And(x, hn::Set(DI(), 127));
    const VF normal = hn::BitCast(
        DF(), hn::Add(hn::ShiftLeft<20>(seven_bits), hn::Set(DI(), 119 << 23)));
    const VF subnormal =
        hn::Mul(hn::ConvertTo(DF(), seven_bits), hn::Set(DF(), 0x1p-10f));
    const auto is_subnormal = hn::Lt(seven_bits, hn::Set(DI(), 8));
    const auto is_nan = hn::Eq(x, hn::Set(DI(), 127));
    return hn::IfThenZeroElse(
        hn::RebindMask(DF(), is_nan),
        hn::IfThenElse(hn::RebindMask(DF(), is_subnormal), subnormal, normal));
  }
  static HWY_INLINE void LoadScales(const Columns& at, Scales& scales) {
    for (int64_t half = 0; half < 2; ++half) {
      const RowSums x = LoadU8(at.block + (2 * at.sub + half) * 16);
      for (size_t j = 0; j < kVecs; ++j) {
        scales.d[half].v[j] = HalfOf(x.v[j]);
      }
    }
  }
  static HWY_INLINE void Decode(const Columns& at, int i, Pairs& low,
                                Pairs& high) {
    DecodeTable(kDoubledE2M1, at.block + 64 + at.sub * kNibblesBytes, i, low,
                high);
  }
};

struct DecoderIq4Nl {
  using Row = RowIq4Nl;
  static constexpr int64_t kSubBlocks = 1;
  static constexpr int64_t kBlockBytes = 16 * 18;
  static constexpr bool kHasMin = false;
  static constexpr bool kHasHalfScales = false;

  static HWY_INLINE void LoadScales(const Columns& at, Scales& scales) {
    scales.d[0] = LoadF16(at.block);
  }
  static HWY_INLINE void Decode(const Columns& at, int i, Pairs& low,
                                Pairs& high) {
    DecodeTable(kIq4Values, at.block + 32, i, low, high);
  }
};

struct DecoderIq4Xs {
  using Row = RowIq4Xs;
  static constexpr int64_t kSubBlocks = 8;
  static constexpr int64_t kBlockBytes = 16 * 136;
  static constexpr bool kHasMin = false;
  static constexpr bool kHasHalfScales = false;

  static HWY_INLINE void LoadScales(const Columns& at, Scales& scales) {
    const hn::Rebind<uint16_t, DI> dh;
    const auto* high = reinterpret_cast<const uint16_t*>(at.block + 32);
    const Rows d = LoadF16(at.block);
    const RowSums low = LoadU8(at.block + 64 + at.sub / 2 * 16);
    const auto to_low = static_cast<int>(at.sub % 2 * 4);
    const auto to_high = static_cast<int>(at.sub * 2);
    for (size_t j = 0; j < kVecs; ++j) {
      const VI highs = hn::PromoteTo(DI(), hn::LoadU(dh, high + j * kLanes));
      const VI low4 =
          hn::And(hn::ShiftRightSame(low.v[j], to_low), hn::Set(DI(), 15));
      const VI high2 =
          hn::And(hn::ShiftRightSame(highs, to_high), hn::Set(DI(), 3));
      const VI scale =
          hn::Sub(hn::Or(low4, hn::ShiftLeft<4>(high2)), hn::Set(DI(), 32));
      scales.d[0].v[j] = hn::Mul(d.v[j], hn::ConvertTo(DF(), scale));
    }
  }
  static HWY_INLINE void Decode(const Columns& at, int i, Pairs& low,
                                Pairs& high) {
    DecodeTable(kIq4Values, at.block + 128 + at.sub * kNibblesBytes, i, low,
                high);
  }
};

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
