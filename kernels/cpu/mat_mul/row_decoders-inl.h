// Decoders of rows in the file's order, for products of few activation rows,
// but for AVX-512 with VNNI (quad_decoders-inl.h). Included once per
// instruction path.
//
// At(block, sub, c) gives kOffset more than the values of columns c, c + 1, ...
// of the block's columns [32 sub, 32 sub + 32), as many as a vector has lanes.
// `c` is a multiple of these. kUpper is IsUpper(sub).
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_ROW_DECODERS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_ROW_DECODERS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_ROW_DECODERS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_ROW_DECODERS_INL_H_
#endif

#include <cstdint>

#include "base/dtype.h"
#include "hwy/highway.h"
#include "kernels/cpu/mat_mul/panel-inl.h"
#include "kernels/quant/tables.h"

#if HWY_TARGET != HWY_AVX3_DL
HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

// Columns of one row. A vector has at most half of a block's: those of lower
// nibbles, or of upper ones.
using DC = hn::CappedTag<int16_t, 16>;
using VC = hn::Vec<DC>;
inline constexpr int kColumnLanes = static_cast<int>(hn::MaxLanes(DC()));

// Loads bytes, zero-extended.
HWY_INLINE VC LoadColumns(const uint8_t* from) {
  return hn::PromoteTo(DC(), hn::LoadU(hn::Rebind<uint8_t, DC>(), from));
}

template <bool kUpper>
HWY_INLINE VC TakeNibbles(VC bytes) {
  return kUpper ? hn::ShiftRight<4>(bytes) : hn::And(bytes, hn::Set(DC(), 15));
}

// Nibbles of 16 bytes: columns 0..15 are the lower ones.
HWY_INLINE VC NibblesAt(const uint8_t* nibbles, int c) {
  const VC both = LoadColumns(nibbles + c % 16);
  return c < 16 ? TakeNibbles<false>(both) : TakeNibbles<true>(both);
}

// The values that those nibbles have in a table of 16.
HWY_INLINE VC TableAt(const int8_t* table, const uint8_t* nibbles, int c) {
  const hn::Rebind<uint8_t, DC> db;
  const auto both = hn::LoadU(db, nibbles + c % 16);
  return LookUp(
      DC(), table,
      c < 16 ? hn::And(both, hn::Set(db, 15)) : hn::ShiftRight<4>(both));
}

// The fifth bits of 32 columns: 16, where a bit of the four bytes is set.
HWY_INLINE VC FifthsAt(const uint8_t* bits, int c) {
  const auto is_set = hn::LoadMaskBits(DC(), bits + c / 8);
  return hn::IfThenElseZero(is_set, hn::Set(DC(), 16));
}

// Two bits of each byte, from bit `bit` on.
HWY_INLINE VC BitPairsAt(const uint8_t* from, int bit) {
  return hn::And(hn::ShiftRightSame(LoadColumns(from), bit), hn::Set(DC(), 3));
}

// `worth`, where a byte's bit `bit` is set.
HWY_INLINE VC BitsAt(const uint8_t* from, int bit, int16_t worth) {
  const VC mask = hn::Set(DC(), static_cast<int16_t>(1 << bit));
  const auto is_set = hn::TestBit(LoadColumns(from), mask);
  return hn::IfThenElseZero(is_set, hn::Set(DC(), worth));
}

// What rows have in common whose kUpper means nothing.
template <DType kDType, int16_t kOffsetOfAll = 0>
struct RowOf {
  static constexpr DType kType = kDType;
  static constexpr int16_t kOffset = kOffsetOfAll;
  static constexpr bool IsUpper(int64_t /*sub*/) { return false; }
};

struct RowQ80 : RowOf<DType::kQ8_0> {
  template <bool kUpper>
  static HWY_INLINE VC At(const uint8_t* block, int /*sub*/, int c) {
    const auto* q = reinterpret_cast<const int8_t*>(block) + 2 + c;
    return hn::PromoteTo(DC(), hn::LoadU(hn::Rebind<int8_t, DC>(), q));
  }
};

struct RowQ40 : RowOf<DType::kQ4_0, 8> {
  template <bool kUpper>
  static HWY_INLINE VC At(const uint8_t* block, int /*sub*/, int c) {
    return NibblesAt(block + 2, c);
  }
};

struct RowQ41 : RowOf<DType::kQ4_1> {
  template <bool kUpper>
  static HWY_INLINE VC At(const uint8_t* block, int /*sub*/, int c) {
    return NibblesAt(block + 4, c);
  }
};

struct RowQ50 : RowOf<DType::kQ5_0, 16> {
  template <bool kUpper>
  static HWY_INLINE VC At(const uint8_t* block, int /*sub*/, int c) {
    return hn::Or(NibblesAt(block + 6, c), FifthsAt(block + 2, c));
  }
};

struct RowQ51 : RowOf<DType::kQ5_1> {
  template <bool kUpper>
  static HWY_INLINE VC At(const uint8_t* block, int /*sub*/, int c) {
    return hn::Or(NibblesAt(block + 8, c), FifthsAt(block + 4, c));
  }
};

struct RowMxfp4 : RowOf<DType::kMxfp4> {
  template <bool kUpper>
  static HWY_INLINE VC At(const uint8_t* block, int /*sub*/, int c) {
    return TableAt(kDoubledE2M1, block + 1, c);
  }
};

struct RowIq4Nl : RowOf<DType::kIq4Nl> {
  template <bool kUpper>
  static HWY_INLINE VC At(const uint8_t* block, int /*sub*/, int c) {
    return TableAt(kIq4Values, block + 2, c);
  }
};

struct RowIq4Xs : RowOf<DType::kIq4Xs> {
  template <bool kUpper>
  static HWY_INLINE VC At(const uint8_t* block, int sub, int c) {
    return TableAt(kIq4Values, block + 8 + sub * 16, c);
  }
};

struct RowQ4K : RowOf<DType::kQ4_K> {
  static constexpr bool IsUpper(int64_t sub) { return sub % 2 == 1; }
  template <bool kUpper>
  static HWY_INLINE VC At(const uint8_t* block, int sub, int c) {
    return TakeNibbles<kUpper>(LoadColumns(block + 16 + sub / 2 * 32 + c));
  }
};

struct RowQ5K : RowOf<DType::kQ5_K> {
  static constexpr bool IsUpper(int64_t sub) { return sub % 2 == 1; }
  template <bool kUpper>
  static HWY_INLINE VC At(const uint8_t* block, int sub, int c) {
    const VC nibbles = LoadColumns(block + 48 + sub / 2 * 32 + c);
    return hn::Or(TakeNibbles<kUpper>(nibbles),
                  BitsAt(block + 16 + c, sub, 16));
  }
};

struct RowQ6K : RowOf<DType::kQ6_K, 32> {
  static constexpr bool IsUpper(int64_t sub) { return sub % 4 >= 2; }
  template <bool kUpper>
  static HWY_INLINE VC At(const uint8_t* block, int sub, int c) {
    const int half = sub / 4;
    const VC nibbles = LoadColumns(block + 64 * half + sub % 2 * 32 + c);
    const VC tops = BitPairsAt(block + 128 + 32 * half + c, sub % 4 * 2);
    return hn::Or(TakeNibbles<kUpper>(nibbles), hn::ShiftLeft<4>(tops));
  }
};

struct RowQ3K : RowOf<DType::kQ3_K, 4> {
  template <bool kUpper>
  static HWY_INLINE VC At(const uint8_t* block, int sub, int c) {
    return hn::Or(BitPairsAt(block + 32 + sub / 4 * 32 + c, sub % 4 * 2),
                  BitsAt(block + c, sub, 4));
  }
};

struct RowQ2K : RowOf<DType::kQ2_K> {
  template <bool kUpper>
  static HWY_INLINE VC At(const uint8_t* block, int sub, int c) {
    return BitPairsAt(block + 16 + sub / 4 * 32 + c, sub % 4 * 2);
  }
};

struct RowTq20 : RowOf<DType::kTq2_0, 1> {
  template <bool kUpper>
  static HWY_INLINE VC At(const uint8_t* block, int sub, int c) {
    return BitPairsAt(block + sub / 4 * 32 + c, sub % 4 * 2);
  }
};

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // include guard, toggled per instruction path
