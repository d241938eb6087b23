// Decoders of rows in the file's order for AVX-512 with VNNI, for products of
// few activation rows. Included once per instruction path.
//
// At(rows, sub, q) gives the values of kSubs groups of 32 columns of a quad
// (quad_rows-inl.h) from group `sub` of a block on: q[j][0] are the first 16
// columns of group sub + j, q[j][1] the others. They are bytes without a sign,
// from which a product takes kOffset off by itself: what is stored is value +
// kOffset. kIsWide tells that they need all eight bits, so that kOffset is 128.
//
// StoreScales(rows, at, to) stores the scales of the blocks at byte `at` of 16
// rows as a panel has them. Some types have none: PackScales does it for them.
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_QUAD_DECODERS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_QUAD_DECODERS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_QUAD_DECODERS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_QUAD_DECODERS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "hwy/highway.h"
#include "kernels/cpu/mat_mul/panel-inl.h"
#include "kernels/cpu/mat_mul/quad_rows-inl.h"
#include "kernels/quant/tables.h"

// Attributes without a function would be an error on other paths.
#if HWY_TARGET == HWY_AVX3_DL
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
static_assert(HWY_HAVE_SCALABLE == 0, "a quad's vector has 64 bytes");
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

HWY_INLINE VQ LowNibbles(VQ v) { return hn::And(v, hn::Set(DQ(), 15)); }
HWY_INLINE VQ ShiftBytes(VQ v, int bits) {
  const hn::Repartition<uint16_t, DQ> d16;
  return hn::BitCast(DQ(), hn::ShiftRightSame(hn::BitCast(d16, v), bits));
}
HWY_INLINE VQ HighNibbles(VQ v) { return LowNibbles(ShiftBytes(v, 4)); }
HWY_INLINE VQ BitPairs(VQ v, int bit) {
  return hn::And(ShiftBytes(v, bit), hn::Set(DQ(), 3));
}
// `to`, more by `worth` where bit `bit` of `v` is set; it has no such bit yet.
HWY_INLINE VQ AddBit(VQ to, VQ v, int bit, uint8_t worth) {
  const auto mask = hn::Set(DQ(), static_cast<uint8_t>(1 << bit));
  return hn::Or(to,
                hn::IfThenElseZero(hn::TestBit(v, mask), hn::Set(DQ(), worth)));
}

// Nibbles of 16 bytes of each row: columns 0..15 are the lower ones.
HWY_INLINE void NibblesOf(const QuadRows& rows, int64_t at, VQ (&q)[2]) {
  const VQ both = LoadQuad(rows, at);
  q[0] = LowNibbles(both);
  q[1] = HighNibbles(both);
}

// The fifth bits of 32 columns, from four bytes of each row.
HWY_INLINE void AddFifths(const QuadRows& rows, int64_t at, VQ (&q)[2]) {
  const hn::Repartition<uint32_t, DQ> d32;
  HWY_ALIGN uint32_t bits[4];
  for (int i = 0; i < 4; ++i) std::memcpy(bits + i, rows.rows[i] + at, 4);
  const VQ all = hn::BitCast(DQ(), hn::LoadDup128(d32, bits));
  HWY_ALIGN static constexpr uint8_t kFirst[64] = {
      0,  0,  0,  0,  0,  0,  0,  0,  1,  1,  1,  1,  1,  1,  1,  1,
      4,  4,  4,  4,  4,  4,  4,  4,  5,  5,  5,  5,  5,  5,  5,  5,
      8,  8,  8,  8,  8,  8,  8,  8,  9,  9,  9,  9,  9,  9,  9,  9,
      12, 12, 12, 12, 12, 12, 12, 12, 13, 13, 13, 13, 13, 13, 13, 13};
  const VQ first = hn::Load(DQ(), kFirst);
  const VQ masks = hn::BitCast(
      DQ(), hn::Set(hn::Repartition<uint64_t, DQ>(), 0x8040201008040201u));
  for (int h = 0; h < 2; ++h) {
    const VQ from = h == 0 ? first : hn::Add(first, hn::Set(DQ(), uint8_t{2}));
    const auto is_set = hn::TestBit(hn::TableLookupBytes(all, from), masks);
    q[h] = hn::Or(q[h], hn::IfThenElseZero(is_set, hn::Set(DQ(), uint8_t{16})));
  }
}

// The values of nibbles in a table, more by `offset`.
HWY_INLINE void LookUpBytes(const int8_t* table, uint8_t offset, VQ (&q)[2]) {
  const VQ values =
      hn::Add(hn::LoadDup128(DQ(), reinterpret_cast<const uint8_t*>(table)),
              hn::Set(DQ(), offset));
  for (VQ& half : q) half = hn::TableLookupBytes(values, half);
}

// What quads of all types have in common.
template <DType kDType, int16_t kOffsetOfAll, int kSubsTogether = 1>
struct QuadOf {
  static constexpr DType kType = kDType;
  static constexpr int16_t kOffset = kOffsetOfAll;
  static constexpr bool kIsWide = kOffset == 128;
  static constexpr int kSubs = kSubsTogether;
};

// What types have in common whose blocks of 32 columns begin with a scale of 16
// bits.
template <DType kDType, int16_t kOffsetOfAll>
struct ScaledQuadOf : QuadOf<kDType, kOffsetOfAll> {
  static HWY_INLINE void StoreScales(const PanelRows& rows, int64_t at,
                                     uint8_t* to) {
    StoreLowHalves(WordsOf(rows, at), to);
  }
};

// What types have in common whose blocks begin with a scale and a minimum.
template <DType kDType>
struct MinQuadOf : QuadOf<kDType, 0> {
  static HWY_INLINE void StoreScales(const PanelRows& rows, int64_t at,
                                     uint8_t* to) {
    const __m512i both = WordsOf(rows, at);
    StoreLowHalves(both, to);
    StoreHighHalves(both, to + 2 * kPanelRows);
  }
};

// What Q4_K and Q5_K have in common: both scales, and the twelve bytes of
// six-bit ones.
template <DType kDType>
struct SixBitQuadOf : QuadOf<kDType, 0, 2> {
  static HWY_INLINE void StoreScales(const PanelRows& rows, int64_t at,
                                     uint8_t* to) {
    StoreUnits<2>(rows, at, to);
  }
};

struct RowQ80 : ScaledQuadOf<DType::kQ8_0, 128> {
  static HWY_INLINE void At(const QuadRows& rows, int64_t /*sub*/,
                            VQ (&q)[1][2]) {
    const VQ sign = hn::Set(DQ(), uint8_t{128});
    q[0][0] = hn::Xor(LoadQuad(rows, 2), sign);
    q[0][1] = hn::Xor(LoadQuad(rows, 18), sign);
  }
};

struct RowQ40 : ScaledQuadOf<DType::kQ4_0, 8> {
  static HWY_INLINE void At(const QuadRows& rows, int64_t /*sub*/,
                            VQ (&q)[1][2]) {
    NibblesOf(rows, 2, q[0]);
  }
};

struct RowQ41 : MinQuadOf<DType::kQ4_1> {
  static HWY_INLINE void At(const QuadRows& rows, int64_t /*sub*/,
                            VQ (&q)[1][2]) {
    NibblesOf(rows, 4, q[0]);
  }
};

struct RowQ50 : ScaledQuadOf<DType::kQ5_0, 16> {
  static HWY_INLINE void At(const QuadRows& rows, int64_t /*sub*/,
                            VQ (&q)[1][2]) {
    NibblesOf(rows, 6, q[0]);
    AddFifths(rows, 2, q[0]);
  }
};

struct RowQ51 : MinQuadOf<DType::kQ5_1> {
  static HWY_INLINE void At(const QuadRows& rows, int64_t /*sub*/,
                            VQ (&q)[1][2]) {
    NibblesOf(rows, 8, q[0]);
    AddFifths(rows, 4, q[0]);
  }
};

struct RowMxfp4 : QuadOf<DType::kMxfp4, 12> {
  static HWY_INLINE void StoreScales(const PanelRows& rows, int64_t at,
                                     uint8_t* to) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm512_cvtepi32_epi8(WordsOf(rows, at)));
  }
  static HWY_INLINE void At(const QuadRows& rows, int64_t /*sub*/,
                            VQ (&q)[1][2]) {
    NibblesOf(rows, 1, q[0]);
    LookUpBytes(kDoubledE2M1, kOffset, q[0]);
  }
};

struct RowIq4Nl : ScaledQuadOf<DType::kIq4Nl, 128> {
  static HWY_INLINE void At(const QuadRows& rows, int64_t /*sub*/,
                            VQ (&q)[1][2]) {
    NibblesOf(rows, 2, q[0]);
    LookUpBytes(kIq4Values, kOffset, q[0]);
  }
};

struct RowIq4Xs : QuadOf<DType::kIq4Xs, 128> {
  static HWY_INLINE void At(const QuadRows& rows, int64_t sub, VQ (&q)[1][2]) {
    NibblesOf(rows, 8 + sub * 16, q[0]);
    LookUpBytes(kIq4Values, kOffset, q[0]);
  }
};

struct RowQ4K : SixBitQuadOf<DType::kQ4_K> {
  static HWY_INLINE void At(const QuadRows& rows, int64_t sub, VQ (&q)[2][2]) {
    for (int h = 0; h < 2; ++h) {
      const VQ both = LoadQuad(rows, 16 + sub * 16 + h * 16);
      q[0][h] = LowNibbles(both);
      q[1][h] = HighNibbles(both);
    }
  }
};

struct RowQ5K : SixBitQuadOf<DType::kQ5_K> {
  static HWY_INLINE void At(const QuadRows& rows, int64_t sub, VQ (&q)[2][2]) {
    for (int h = 0; h < 2; ++h) {
      const VQ fifths = LoadQuad(rows, 16 + h * 16);
      const VQ both = LoadQuad(rows, 48 + sub * 16 + h * 16);
      const auto bit = static_cast<int>(sub);
      q[0][h] = AddBit(LowNibbles(both), fifths, bit, 16);
      q[1][h] = AddBit(HighNibbles(both), fifths, bit + 1, 16);
    }
  }
};

struct RowQ6K : QuadOf<DType::kQ6_K, 32, 4> {
  static HWY_INLINE void StoreScales(const PanelRows& rows, int64_t at,
                                     uint8_t* to) {
    StoreHighHalves(WordsOf(rows, at + 206), to);
    StoreUnits<0>(rows, at + 192, to + 2 * kPanelRows);
  }
  static HWY_INLINE void At(const QuadRows& rows, int64_t sub, VQ (&q)[4][2]) {
    const hn::Repartition<uint16_t, DQ> d16;
    const VQ top = hn::Set(DQ(), 0x30);
    for (int h = 0; h < 2; ++h) {
      const VQ tops = LoadQuad(rows, 128 + sub * 8 + h * 16);
      const VQ moved[4] = {
          hn::BitCast(DQ(), hn::ShiftLeft<4>(hn::BitCast(d16, tops))),
          hn::BitCast(DQ(), hn::ShiftLeft<2>(hn::BitCast(d16, tops))), tops,
          ShiftBytes(tops, 2)};
      for (int i = 0; i < 2; ++i) {
        const VQ both = LoadQuad(rows, sub * 16 + i * 32 + h * 16);
        q[i][h] = hn::Or(LowNibbles(both), hn::And(moved[i], top));
        q[i + 2][h] = hn::Or(HighNibbles(both), hn::And(moved[i + 2], top));
      }
    }
  }
};

// Bit pairs of 32 bytes from `at` on are the values of four groups of columns.
HWY_INLINE void BitPairsOf(const QuadRows& rows, int64_t at, VQ (&q)[4][2]) {
  for (int h = 0; h < 2; ++h) {
    const VQ pairs = LoadQuad(rows, at + h * 16);
    for (int j = 0; j < 4; ++j) q[j][h] = BitPairs(pairs, 2 * j);
  }
}

struct RowQ3K : QuadOf<DType::kQ3_K, 4, 4> {
  static HWY_INLINE void At(const QuadRows& rows, int64_t sub, VQ (&q)[4][2]) {
    BitPairsOf(rows, 32 + sub * 8, q);
    for (int h = 0; h < 2; ++h) {
      const VQ thirds = LoadQuad(rows, h * 16);
      for (int j = 0; j < 4; ++j) {
        q[j][h] = AddBit(q[j][h], thirds, static_cast<int>(sub) + j, 4);
      }
    }
  }
};

struct RowQ2K : QuadOf<DType::kQ2_K, 0, 4> {
  static HWY_INLINE void At(const QuadRows& rows, int64_t sub, VQ (&q)[4][2]) {
    BitPairsOf(rows, 16 + sub * 8, q);
  }
};

struct RowTq20 : QuadOf<DType::kTq2_0, 1, 4> {
  static HWY_INLINE void At(const QuadRows& rows, int64_t sub, VQ (&q)[4][2]) {
    BitPairsOf(rows, sub * 8, q);
  }
};

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // include guard, toggled per instruction path
