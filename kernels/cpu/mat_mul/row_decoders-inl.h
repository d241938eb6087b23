// Decoders of rows in the file's order, for products of few activation rows: of
// types with blocks of 32 columns. Included once per instruction path.
//
// A block begins with kScaleBytes of its scale, and of its minimum if it has
// one. At(block, c) gives columns c, c + 1, ... of a block, as many as a vector
// has lanes. `c` is a multiple of these.
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_ROW_DECODERS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_ROW_DECODERS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_ROW_DECODERS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_ROW_DECODERS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/mat_mul/panel-inl.h"
#include "kernels/quant/tables.h"

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

// Nibbles of 16 bytes: columns 0..15 are the lower ones.
HWY_INLINE VC NibblesAt(const uint8_t* nibbles, int c) {
  const VC both = LoadColumns(nibbles + c % 16);
  return c < 16 ? hn::And(both, hn::Set(DC(), 15)) : hn::ShiftRight<4>(both);
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

struct RowQ80 {
  static constexpr size_t kScaleBytes = 2;

  static HWY_INLINE VC At(const uint8_t* block, int c) {
    const auto* q = reinterpret_cast<const int8_t*>(block) + 2 + c;
    return hn::PromoteTo(DC(), hn::LoadU(hn::Rebind<int8_t, DC>(), q));
  }
};

struct RowQ40 {
  static constexpr size_t kScaleBytes = 2;

  static HWY_INLINE VC At(const uint8_t* block, int c) {
    return hn::Sub(NibblesAt(block + 2, c), hn::Set(DC(), 8));
  }
};

struct RowQ41 {
  static constexpr size_t kScaleBytes = 4;

  static HWY_INLINE VC At(const uint8_t* block, int c) {
    return NibblesAt(block + 4, c);
  }
};

struct RowQ50 {
  static constexpr size_t kScaleBytes = 2;

  static HWY_INLINE VC At(const uint8_t* block, int c) {
    const VC q = hn::Or(NibblesAt(block + 6, c), FifthsAt(block + 2, c));
    return hn::Sub(q, hn::Set(DC(), 16));
  }
};

struct RowQ51 {
  static constexpr size_t kScaleBytes = 4;

  static HWY_INLINE VC At(const uint8_t* block, int c) {
    return hn::Or(NibblesAt(block + 8, c), FifthsAt(block + 4, c));
  }
};

struct RowMxfp4 {
  static constexpr size_t kScaleBytes = 1;

  static HWY_INLINE VC At(const uint8_t* block, int c) {
    return TableAt(kDoubledE2M1, block + 1, c);
  }
};

struct RowIq4Nl {
  static constexpr size_t kScaleBytes = 2;

  static HWY_INLINE VC At(const uint8_t* block, int c) {
    return TableAt(kIq4Values, block + 2, c);
  }
};

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
