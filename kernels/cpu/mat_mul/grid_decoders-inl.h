// Decoders of the types IQ1, IQ2 and IQ3, whose quants are points of lattices
// (grids.h). Included once per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_GRID_DECODERS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_GRID_DECODERS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_GRID_DECODERS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_GRID_DECODERS_INL_H_
#endif

#include <cstdint>

#include "base/dtype.h"
#include "hwy/highway.h"
#include "kernels/cpu/mat_mul/panel-inl.h"
#include "kernels/cpu/pack_weights.h"
#include "kernels/quant/grid_form.h"
#include "kernels/quant/grids.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

// 32 columns, decoded: an entry of a grid has several column pairs, so they are
// decoded together.
struct GridColumns : Columns {
  Pairs pairs[16];
  Rows d[2];
};

// Where a panel has the parts of a block (pack_weights.h). `j` is which vector
// of rows.
template <DType kType>
struct GridPanel {
  static constexpr DType kDType = kType;
  static constexpr GridForm kForm = GridFormOf(kType);
  static constexpr int64_t kBytesAt = kForm.d < 0 ? 0 : 32;
  static constexpr int64_t kWordsAt = kBytesAt + 16 * kForm.NumBytes();

  // Word k of the columns.
  static HWY_INLINE VI Word(const Columns& at, size_t j, int k) {
    const uint8_t* from =
        at.block + kWordsAt + (at.sub * kForm.n_words + k) * 64;
    return hn::LoadU(DI(), reinterpret_cast<const int32_t*>(from) + j * kLanes);
  }
  // Byte i of the block's sequence.
  static HWY_INLINE VI Byte(const Columns& at, size_t j, int64_t i) {
    const hn::Rebind<uint8_t, DI> db;
    return hn::PromoteTo(
        DI(), hn::LoadU(db, at.block + kBytesAt + 16 * i + j * kLanes));
  }
  // Bytes i and i + 1.
  static HWY_INLINE VI Half(const Columns& at, size_t j, int64_t i) {
    return hn::Or(Byte(at, j, i), hn::ShiftLeft<8>(Byte(at, j, i + 1)));
  }
};

// Bits [shift, shift + n) of each row's word.
template <int kN>
HWY_INLINE VI BitsAt(VI words, int64_t shift) {
  return hn::And(hn::ShiftRightSame(words, static_cast<int>(shift)),
                 hn::Set(DI(), (1 << kN) - 1));
}

// SignsOf (grid_form.h) of each row's seven bits.
HWY_INLINE VI EvenSigns(VI seven) {
  VI parity = hn::Xor(seven, hn::ShiftRight<4>(seven));
  parity = hn::Xor(parity, hn::ShiftRight<2>(parity));
  parity = hn::Xor(parity, hn::ShiftRight<1>(parity));
  const VI last = hn::And(parity, hn::Set(DI(), 1));
  return hn::Or(seven, hn::ShiftLeft<7>(last));
}

// The scales d * (2 s + 1) * kUnit, for the numbers s that scale_of(j) gives.
template <class ScaleOf>
HWY_INLINE Rows OddScales(const Rows& d, float unit, const ScaleOf& scale_of) {
  Rows scales;
  const VF by = hn::Set(DF(), unit);
  for (size_t j = 0; j < kVecs; ++j) {
    const VI s = scale_of(j);
    const VI odd = hn::Add(hn::Add(s, s), hn::Set(DI(), 1));
    scales.v[j] = hn::Mul(hn::Mul(d.v[j], by), hn::ConvertTo(DF(), odd));
  }
  return scales;
}

// What follows is for each type, with column groups e that share an entry:
//   kGrid, kCodeBits  the entries and the bits of a column's code
//   Index(at, j, e)   the entry of group e
//   Signs(at, j, e)   a bit for each of its columns, set if it is negative
//   Value(c, n)       the quants of codes c, where n is 1 if negative, else 0
//   Scale(at, j, h)   s of half h of the columns

HWY_INLINE VS Negated(VS q, VS n) { return hn::Add(hn::Xor(q, hn::Neg(n)), n); }

template <DType kType>
struct GridIq2 : GridPanel<kType> {
  using Panel = GridPanel<kType>;
  static constexpr int kCodeBits = 2;
  static constexpr float kUnit = 0.125f;
  // 8, 25 or 43.
  static HWY_INLINE VS Value(VS c, VS n) {
    const VS once = hn::Add(hn::Add(hn::ShiftLeft<4>(c), c),
                            hn::Add(hn::ShiftRight<1>(c), hn::Set(DS(), 8)));
    return Negated(once, n);
  }
};

struct GridIq2Xxs : GridIq2<DType::kIq2Xxs> {
  static constexpr const auto& kGrid = kIq2XxsGrid;
  static HWY_INLINE VI Index(const Columns& at, size_t j, int e) {
    return BitsAt<8>(Panel::Word(at, j, 0), 8 * e);
  }
  static HWY_INLINE VI Signs(const Columns& at, size_t j, int e) {
    return EvenSigns(BitsAt<7>(Panel::Word(at, j, 1), 7 * e));
  }
  static HWY_INLINE VI Scale(const Columns& at, size_t j, int64_t /*half*/) {
    return BitsAt<4>(Panel::Word(at, j, 1), 28);
  }
};

struct GridIq2Xs : GridIq2<DType::kIq2Xs> {
  static constexpr const auto& kGrid = kIq2XsGrid;
  static HWY_INLINE VI Index(const Columns& at, size_t j, int e) {
    return BitsAt<9>(Panel::Word(at, j, e / 2), e % 2 * 16);
  }
  static HWY_INLINE VI Signs(const Columns& at, size_t j, int e) {
    return EvenSigns(BitsAt<7>(Panel::Word(at, j, e / 2), e % 2 * 16 + 9));
  }
  static HWY_INLINE VI Scale(const Columns& at, size_t j, int64_t half) {
    return BitsAt<4>(Panel::Byte(at, j, at.sub), 4 * half);
  }
};

struct GridIq2S : GridIq2<DType::kIq2S> {
  static constexpr const auto& kGrid = kIq2SGrid;
  static HWY_INLINE VI Index(const Columns& at, size_t j, int e) {
    const VI high = BitsAt<2>(Panel::Byte(at, j, at.sub), 2 * e);
    return hn::Or(BitsAt<8>(Panel::Word(at, j, 0), 8 * e),
                  hn::ShiftLeft<8>(high));
  }
  static HWY_INLINE VI Signs(const Columns& at, size_t j, int e) {
    return BitsAt<8>(Panel::Word(at, j, 1), 8 * e);
  }
  static HWY_INLINE VI Scale(const Columns& at, size_t j, int64_t half) {
    return BitsAt<4>(Panel::Byte(at, j, 8 + at.sub), 4 * half);
  }
};

struct GridIq3Xxs : GridPanel<DType::kIq3Xxs> {
  using Panel = GridPanel<DType::kIq3Xxs>;
  static constexpr const auto& kGrid = kIq3XxsGrid;
  static constexpr int kCodeBits = 4;
  static constexpr float kUnit = 0.25f;
  static HWY_INLINE VI Index(const Columns& at, size_t j, int e) {
    return BitsAt<8>(Panel::Word(at, j, e / 4), e % 4 * 8);
  }
  static HWY_INLINE VI Signs(const Columns& at, size_t j, int e) {
    const VI eight = EvenSigns(BitsAt<7>(Panel::Word(at, j, 2), e / 2 * 7));
    return BitsAt<4>(eight, e % 2 * 4);
  }
  static HWY_INLINE VI Scale(const Columns& at, size_t j, int64_t /*half*/) {
    return BitsAt<4>(Panel::Word(at, j, 2), 28);
  }
  // 4, 12, 20, 28, 36, 44, 52 or 62.
  static HWY_INLINE VS Value(VS c, VS n) {
    const VS is_last = hn::ShiftRight<3>(hn::Add(c, hn::Set(DS(), 1)));
    const VS once = hn::Add(hn::Add(hn::ShiftLeft<3>(c), hn::Set(DS(), 4)),
                            hn::ShiftLeft<1>(is_last));
    return Negated(once, n);
  }
};

struct GridIq3S : GridPanel<DType::kIq3S> {
  using Panel = GridPanel<DType::kIq3S>;
  static constexpr const auto& kGrid = kIq3SGrid;
  static constexpr int kCodeBits = 4;
  static constexpr float kUnit = 1.0f;
  static HWY_INLINE VI Index(const Columns& at, size_t j, int e) {
    const VI high = BitsAt<1>(Panel::Byte(at, j, at.sub), e);
    return hn::Or(BitsAt<8>(Panel::Word(at, j, e / 4), e % 4 * 8),
                  hn::ShiftLeft<8>(high));
  }
  static HWY_INLINE VI Signs(const Columns& at, size_t j, int e) {
    return BitsAt<4>(Panel::Word(at, j, 2), 4 * e);
  }
  static HWY_INLINE VI Scale(const Columns& at, size_t j, int64_t /*half*/) {
    return BitsAt<4>(Panel::Byte(at, j, 8 + at.sub / 2), at.sub % 2 * 4);
  }
  static HWY_INLINE VS Value(VS c, VS n) {
    return Negated(hn::Add(hn::Add(c, c), hn::Set(DS(), 1)), n);
  }
};

template <DType kType>
struct GridIq1 : GridPanel<kType> {
  using Panel = GridPanel<kType>;
  static constexpr const auto& kGrid = kIq1Grid;
  static constexpr int kCodeBits = 2;
  static constexpr float kUnit = 0.125f;
  static constexpr int kStep = kType == DType::kIq1S ? 3 : 4;
  // The high bits of indices, and what is stored with them.
  static HWY_INLINE VI High(const Columns& at, size_t j) {
    return Panel::Half(at, j, 2 * at.sub);
  }
  static HWY_INLINE VI Index(const Columns& at, size_t j, int e) {
    return hn::Or(BitsAt<8>(Panel::Word(at, j, 0), 8 * e),
                  hn::ShiftLeft<8>(BitsAt<3>(High(at, j), kStep * e)));
  }
  static HWY_INLINE VI Signs(const Columns& at, size_t j, int e) {
    const int bit = kType == DType::kIq1S ? 15 : 4 * e + 3;
    return hn::Neg(BitsAt<1>(High(at, j), bit));
  }
  // 8 (c - 1) + 1, or - 1.
  static HWY_INLINE VS Value(VS c, VS n) {
    return hn::Sub(hn::Sub(hn::ShiftLeft<3>(c), hn::Set(DS(), 7)),
                   hn::Add(n, n));
  }
};

struct GridIq1S : GridIq1<DType::kIq1S> {
  static HWY_INLINE VI Scale(const Columns& at, size_t j, int64_t /*half*/) {
    return BitsAt<3>(High(at, j), 12);
  }
};

struct GridIq1M : GridIq1<DType::kIq1M> {
  static HWY_INLINE VI Scale(const Columns& at, size_t j, int64_t half) {
    return BitsAt<3>(Panel::Half(at, j, 16 + at.sub / 2 * 2),
                     at.sub % 2 * 6 + half * 3);
  }
  // The scale d is in the top four bits of the four u16 of scales.
  static HWY_INLINE Rows LoadD(const Columns& at) {
    HWY_ALIGN int32_t bits[kPanelRows];
    for (size_t j = 0; j < kVecs; ++j) {
      VI d = hn::Zero(DI());
      for (int i = 3; i >= 0; --i) {
        const VI four = BitsAt<4>(Panel::Half(at, j, 16 + 2 * i), 12);
        d = hn::Or(hn::ShiftLeft<4>(d), four);
      }
      hn::Store(d, DI(), bits + j * kLanes);
    }
    uint16_t halves[kPanelRows];
    for (int64_t r = 0; r < kPanelRows; ++r) {
      halves[r] = static_cast<uint16_t>(bits[r]);
    }
    uint8_t bytes[2 * kPanelRows];
    std::memcpy(bytes, halves, sizeof(bytes));
    return LoadF16(bytes);
  }
};

// Decodes the pairs of columns of one of these types.
template <class Grid>
HWY_INLINE void ExpandPairs(GridColumns& to) {
  constexpr int kBits = Grid::kCodeBits;
  constexpr int kPairs = 8 / kBits;  // pairs in an entry
  const VI mask = hn::Set(DI(), (1 << kBits) - 1);
  const VI upper = hn::Set(DI(), ((1 << kBits) - 1) << 16);
  const VI one = hn::Set(DI(), 1);
  const VI upper_one = hn::Set(DI(), 1 << 16);
  for (int e = 0; e < 16 / kPairs; ++e) {
    for (size_t j = 0; j < kVecs; ++j) {
      VI codes =
          hn::GatherIndex(DI(), Grid::kGrid.data(), Grid::Index(to, j, e));
      VI signs = Grid::Signs(to, j, e);
      for (int p = 0; p < kPairs; ++p) {
        const VI both =
            hn::Or(hn::And(codes, mask),
                   hn::And(hn::ShiftLeft<16 - kBits>(codes), upper));
        const VI negative = hn::Or(
            hn::And(signs, one), hn::And(hn::ShiftLeft<15>(signs), upper_one));
        to.pairs[e * kPairs + p].v[j] =
            Grid::Value(hn::BitCast(DS(), both), hn::BitCast(DS(), negative));
        codes = hn::ShiftRight<2 * kBits>(codes);
        signs = hn::ShiftRight<2>(signs);
      }
    }
  }
}

// Decodes columns [32 s, 32 s + 32) of a panel of one of these types.
template <class Grid>
PLIMSOLL_NO_IPA void ExpandColumns(const PanelData& panel, int64_t s,
                                   GridColumns& to) {
  constexpr int64_t kBlockBytes = 16 * InfoOf(Grid::kDType).block_bytes;
  to.block = panel.blocks + s / 8 * kBlockBytes;
  to.sub = s % 8;
  to.low = nullptr;
  ExpandPairs<Grid>(to);
  Rows d;
  if constexpr (Grid::kDType == DType::kIq1M) {
    d = Grid::LoadD(to);
  } else {
    d = LoadF16(to.block);
  }
  for (int64_t half = 0; half < 2; ++half) {
    to.d[half] = OddScales(d, Grid::kUnit, [&](size_t j) HWY_ATTR {
      return Grid::Scale(to, j, half);
    });
  }
}

// The decoder (decoders-inl.h) of all of these types. There is one for types
// with two scales and one for the others, so that products are not compiled for
// each type.
template <bool kHasHalves>
struct DecoderGrid {
  static constexpr int64_t kSubBlocks = 8;
  static constexpr int64_t kBlockBytes = 16 * 82;  // a type's own is near
  static constexpr bool kHasMin = false;
  static constexpr bool kHasHalfScales = kHasHalves;

  static HWY_INLINE void LoadScales(const GridColumns& at, Scales& scales) {
    scales.d[0] = at.d[0];
    scales.d[1] = at.d[1];
  }
  static HWY_INLINE void Decode(const GridColumns& at, int i, Pairs& low,
                                Pairs& high) {
    low = at.pairs[i];
    high = at.pairs[8 + i];
  }
  static HWY_INLINE GridColumns Expand(const PanelData& panel, int64_t s) {
    GridColumns columns;
    if constexpr (kHasHalves) {
      switch (panel.dtype) {
        case DType::kIq2Xs:
          ExpandColumns<GridIq2Xs>(panel, s, columns);
          break;
        case DType::kIq2S:
          ExpandColumns<GridIq2S>(panel, s, columns);
          break;
        default:
          ExpandColumns<GridIq1M>(panel, s, columns);
      }
    } else {
      switch (panel.dtype) {
        case DType::kIq2Xxs:
          ExpandColumns<GridIq2Xxs>(panel, s, columns);
          break;
        case DType::kIq3Xxs:
          ExpandColumns<GridIq3Xxs>(panel, s, columns);
          break;
        case DType::kIq3S:
          ExpandColumns<GridIq3S>(panel, s, columns);
          break;
        default:
          ExpandColumns<GridIq1S>(panel, s, columns);
      }
    }
    return columns;
  }
};

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
