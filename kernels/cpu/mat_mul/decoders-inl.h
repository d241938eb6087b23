// The decoders of each element type, from a weight panel into vectors of one
// lane for each row. Included once per instruction path.
#if defined(PLIMSOLL_KERNELS_CPU_MAT_MUL_DECODERS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_KERNELS_CPU_MAT_MUL_DECODERS_INL_H_
#undef PLIMSOLL_KERNELS_CPU_MAT_MUL_DECODERS_INL_H_
#else
#define PLIMSOLL_KERNELS_CPU_MAT_MUL_DECODERS_INL_H_
#endif

#include <cstdint>

#include "base/status_macros.h"
#include "hwy/highway.h"
#include "kernels/cpu/mat_mul/grid_decoders-inl.h"
#include "kernels/cpu/mat_mul/pack_rows-inl.h"
#include "kernels/cpu/mat_mul/panel-inl.h"
#include "kernels/cpu/mat_mul/quad_decoders-inl.h"
#include "kernels/cpu/mat_mul/row_decoders-inl.h"
#include "kernels/cpu/mat_mul/table_decoders-inl.h"
#include "kernels/cpu/pack_weights.h"
#include "kernels/quant/tables.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {

// In each decoder, kSubBlocks groups of 32 columns share one panel block of
// kBlockBytes. Decode gives column pairs i and i + 8, for i < 8. A type with a
// scale for each half of the columns has the minima, if any, for each half too.
// Row, where there is one, decodes rows in the file's order.

struct DecoderQ80 {
  using Row = RowQ80;
  static constexpr int64_t kSubBlocks = 1;
  static constexpr int64_t kBlockBytes = 16 * 34;
  static constexpr bool kHasMin = false;
  static constexpr bool kHasHalfScales = false;

  static HWY_INLINE void LoadScales(const Columns& at, Scales& scales) {
    scales.d[0] = LoadF16(at.block);
  }
  static HWY_INLINE void Decode(const Columns& at, int i, Pairs& low,
                                Pairs& high) {
    const hn::Rebind<int8_t, DS> db;
    const auto* q = reinterpret_cast<const int8_t*>(at.block) + 32 + i * 32;
    for (size_t j = 0; j < kVecs; ++j) {
      const int8_t* from = q + j * 2 * kLanes;
      low.v[j] = hn::PromoteTo(DS(), hn::LoadU(db, from));
      high.v[j] = hn::PromoteTo(DS(), hn::LoadU(db, from + 8 * 32));
    }
  }
};

HWY_INLINE void DecodeNibbles(const uint8_t* nibbles, int i, Pairs& low,
                              Pairs& high) {
  const VS mask = hn::Set(DS(), 15);
  for (size_t j = 0; j < kVecs; ++j) {
    const VS both = LoadPairsU8(nibbles + i * 32, j);
    low.v[j] = hn::And(both, mask);
    high.v[j] = hn::ShiftRight<4>(both);
  }
}

// Decodes the high parts of split Q8_0, times 16.
HWY_INLINE void DecodeHighNibbles(const uint8_t* nibbles, int i, Pairs& low,
                                  Pairs& high) {
  const hn::Rebind<int8_t, DS> db;
  const auto* from = reinterpret_cast<const int8_t*>(nibbles) + i * 32;
  const VS top = hn::Set(DS(), ~int16_t{15});
  for (size_t j = 0; j < kVecs; ++j) {
    const VS both = hn::PromoteTo(DS(), hn::LoadU(db, from + j * 2 * kLanes));
    low.v[j] = hn::ShiftRight<8>(hn::ShiftLeft<12>(both));
    high.v[j] = hn::And(both, top);
  }
}

struct DecoderSplitQ80 {
  static constexpr int64_t kSubBlocks = 1;
  static constexpr int64_t kBlockBytes = kHighBlockBytes;
  static constexpr bool kHasMin = false;
  static constexpr bool kHasHalfScales = false;

  static HWY_INLINE void LoadScales(const Columns& at, Scales& scales) {
    scales.d[0] = LoadF16(at.block);
  }
  static HWY_INLINE void Decode(const Columns& at, int i, Pairs& low,
                                Pairs& high) {
    Pairs high_of_low;
    Pairs high_of_high;
    DecodeNibbles(at.low, i, low, high);
    DecodeHighNibbles(at.block + 32, i, high_of_low, high_of_high);
    for (size_t j = 0; j < kVecs; ++j) {
      low.v[j] = hn::Or(low.v[j], high_of_low.v[j]);
      high.v[j] = hn::Or(high.v[j], high_of_high.v[j]);
    }
  }
};

// Applies the fifth bits of a column pair, or others that are worth kWorth. A
// set bit gives q + kWorth; for types with signed quants, a bit that is not set
// gives q - kWorth.
template <bool kIsSigned, int16_t kWorth = 16>
HWY_INLINE void ApplyFifthBits(const uint8_t* mask, Pairs& q) {
  const VS worth = hn::Set(DS(), kWorth);
  for (size_t j = 0; j < kVecs; ++j) {
    const auto is_set = hn::LoadMaskBits(DS(), mask + j * kLanes / 4);
    q.v[j] = kIsSigned ? hn::Sub(q.v[j], hn::IfThenZeroElse(is_set, worth))
                       : hn::Add(q.v[j], hn::IfThenElseZero(is_set, worth));
  }
}

// Decodes 16 masks of a column pair's fifth bits, and the nibbles after them.
template <bool kIsSigned>
HWY_INLINE void DecodeFiveBits(const uint8_t* masks, int i, Pairs& low,
                               Pairs& high) {
  DecodeNibbles(masks + kFifthsBytes, i, low, high);
  ApplyFifthBits<kIsSigned>(masks + 4 * i, low);
  ApplyFifthBits<kIsSigned>(masks + 4 * (i + 8), high);
}

struct DecoderQ40 {
  using Row = RowQ40;
  static constexpr int64_t kSubBlocks = 1;
  static constexpr int64_t kBlockBytes = 16 * 18;
  static constexpr bool kHasMin = false;
  static constexpr bool kHasHalfScales = false;

  static HWY_INLINE void LoadScales(const Columns& at, Scales& scales) {
    scales.d[0] = LoadF16(at.block);
  }
  static HWY_INLINE void Decode(const Columns& at, int i, Pairs& low,
                                Pairs& high) {
    DecodeNibbles(at.block + 32, i, low, high);
    const VS eight = hn::Set(DS(), 8);
    for (size_t j = 0; j < kVecs; ++j) {
      low.v[j] = hn::Sub(low.v[j], eight);
      high.v[j] = hn::Sub(high.v[j], eight);
    }
  }
};

struct DecoderQ41 {
  using Row = RowQ41;
  static constexpr int64_t kSubBlocks = 1;
  static constexpr int64_t kBlockBytes = 16 * 20;
  static constexpr bool kHasMin = true;
  static constexpr bool kHasHalfScales = false;

  static HWY_INLINE void LoadScales(const Columns& at, Scales& scales) {
    scales.d[0] = LoadF16(at.block);
    scales.m[0] = LoadF16(at.block + 32);
  }
  static HWY_INLINE void Decode(const Columns& at, int i, Pairs& low,
                                Pairs& high) {
    DecodeNibbles(at.block + 64, i, low, high);
  }
};

struct DecoderQ50 {
  using Row = RowQ50;
  static constexpr int64_t kSubBlocks = 1;
  static constexpr int64_t kBlockBytes = 16 * 22;
  static constexpr bool kHasMin = false;
  static constexpr bool kHasHalfScales = false;

  static HWY_INLINE void LoadScales(const Columns& at, Scales& scales) {
    scales.d[0] = LoadF16(at.block);
  }
  static HWY_INLINE void Decode(const Columns& at, int i, Pairs& low,
                                Pairs& high) {
    DecodeFiveBits<true>(at.block + 32, i, low, high);
  }
};

struct DecoderQ51 {
  using Row = RowQ51;
  static constexpr int64_t kSubBlocks = 1;
  static constexpr int64_t kBlockBytes = 16 * 24;
  static constexpr bool kHasMin = true;
  static constexpr bool kHasHalfScales = false;

  static HWY_INLINE void LoadScales(const Columns& at, Scales& scales) {
    DecoderQ41::LoadScales(at, scales);
  }
  static HWY_INLINE void Decode(const Columns& at, int i, Pairs& low,
                                Pairs& high) {
    DecodeFiveBits<false>(at.block + 64, i, low, high);
  }
};

// The two six-bit numbers of 32 columns from twelve packed bytes, as Q4_K has
// its scales and minima.
HWY_INLINE void LoadSixBits(const uint8_t* packed, int64_t sub, RowSums& first,
                            RowSums& second) {
  const VI low6 = hn::Set(DI(), 63);
  const VI low4 = hn::Set(DI(), 15);
  const RowSums a = LoadU8(packed + sub % 4 * 16);
  const RowSums b = LoadU8(packed + (sub % 4 + 4) * 16);
  const RowSums c = LoadU8(packed + (sub % 4 + 8) * 16);
  for (size_t j = 0; j < kVecs; ++j) {
    first.v[j] = hn::And(a.v[j], low6);
    second.v[j] = hn::And(b.v[j], low6);
    if (sub < 4) continue;
    const VI top_of_first = hn::ShiftLeft<4>(hn::ShiftRight<6>(a.v[j]));
    const VI top_of_second = hn::ShiftLeft<4>(hn::ShiftRight<6>(b.v[j]));
    first.v[j] = hn::Or(hn::And(c.v[j], low4), top_of_first);
    second.v[j] = hn::Or(hn::ShiftRight<4>(c.v[j]), top_of_second);
  }
}

struct DecoderQ4K {
  using Row = RowQ4K;
  static constexpr int64_t kSubBlocks = 8;
  static constexpr int64_t kBlockBytes = 16 * 144;
  static constexpr bool kHasMin = true;
  static constexpr bool kHasHalfScales = false;

  static HWY_INLINE void LoadScales(const Columns& at, Scales& scales) {
    const Rows d = LoadF16(at.block);
    const Rows dmin = LoadF16(at.block + 32);
    RowSums scale;
    RowSums min;
    LoadSixBits(at.block + 64, at.sub, scale, min);
    for (size_t j = 0; j < kVecs; ++j) {
      scales.d[0].v[j] = hn::Mul(d.v[j], hn::ConvertTo(DF(), scale.v[j]));
      scales.m[0].v[j] =
          hn::Neg(hn::Mul(dmin.v[j], hn::ConvertTo(DF(), min.v[j])));
    }
  }
  static HWY_INLINE void Decode(const Columns& at, int i, Pairs& low,
                                Pairs& high) {
    DecodeNibbles(at.block + 256 + at.sub * kNibblesBytes, i, low, high);
  }
};

struct DecoderQ5K {
  using Row = RowQ5K;
  static constexpr int64_t kSubBlocks = 8;
  static constexpr int64_t kBlockBytes = 16 * 176;
  static constexpr bool kHasMin = true;
  static constexpr bool kHasHalfScales = false;

  static HWY_INLINE void LoadScales(const Columns& at, Scales& scales) {
    DecoderQ4K::LoadScales(at, scales);
  }
  static HWY_INLINE void Decode(const Columns& at, int i, Pairs& low,
                                Pairs& high) {
    DecodeFiveBits<false>(
        at.block + 256 + at.sub * (kFifthsBytes + kNibblesBytes), i, low, high);
  }
};

struct DecoderQ6K {
  using Row = RowQ6K;
  static constexpr int64_t kSubBlocks = 8;
  static constexpr int64_t kBlockBytes = 16 * 210;
  static constexpr bool kHasMin = false;
  static constexpr bool kHasHalfScales = true;

  static HWY_INLINE void LoadScales(const Columns& at, Scales& scales) {
    const hn::Rebind<int8_t, DI> db;
    const Rows d = LoadF16(at.block);
    for (int64_t half = 0; half < 2; ++half) {
      const auto* packed = reinterpret_cast<const int8_t*>(at.block) + 32 +
                           (2 * at.sub + half) * 16;
      for (size_t j = 0; j < kVecs; ++j) {
        const VI scale =
            hn::PromoteTo(DI(), hn::LoadU(db, packed + j * kLanes));
        scales.d[half].v[j] = hn::Mul(d.v[j], hn::ConvertTo(DF(), scale));
      }
    }
  }
  static HWY_INLINE void Decode(const Columns& at, int i, Pairs& low,
                                Pairs& high) {
    const uint8_t* nibbles =
        at.block + 288 + at.sub * (kNibblesBytes + kHighsBytes);
    DecodeNibbles(nibbles, i, low, high);
    const VS top = hn::Set(DS(), 0x30);
    const VS bias = hn::Set(DS(), 32);
    for (size_t j = 0; j < kVecs; ++j) {
      const VS bits = LoadPairsU8(nibbles + kNibblesBytes + i % 4 * 32, j);
      // Pair i is bit pair i / 4 (0 or 1), pair i + 8 is bit pair 2 + i / 4.
      const VS of_low = i < 4 ? hn::ShiftLeft<4>(bits) : hn::ShiftLeft<2>(bits);
      const VS of_high = i < 4 ? bits : hn::ShiftRight<2>(bits);
      low.v[j] = hn::Sub(hn::Or(low.v[j], hn::And(of_low, top)), bias);
      high.v[j] = hn::Sub(hn::Or(high.v[j], hn::And(of_high, top)), bias);
    }
  }
};

// Decodes two-bit quants.
HWY_INLINE void DecodeHighs(const uint8_t* highs, int i, Pairs& low,
                            Pairs& high) {
  const VS mask = hn::Set(DS(), 3);
  for (size_t j = 0; j < kVecs; ++j) {
    const VS bits = LoadPairsU8(highs + i % 4 * 32, j);
    // Pair i is bit pair i / 4 (0 or 1), pair i + 8 is bit pair 2 + i / 4.
    const VS moved = i < 4 ? bits : hn::ShiftRight<2>(bits);
    low.v[j] = hn::And(moved, mask);
    high.v[j] = hn::And(hn::ShiftRight<4>(moved), mask);
  }
}

struct DecoderQ3K {
  using Row = RowQ3K;
  static constexpr int64_t kSubBlocks = 8;
  static constexpr int64_t kBlockBytes = 16 * 110;
  static constexpr bool kHasMin = false;
  static constexpr bool kHasHalfScales = true;

  static HWY_INLINE void LoadScales(const Columns& at, Scales& scales) {
    const Rows d = LoadF16(at.block);
    RowSums scale[2];
    LoadSixBits(at.block + 32, at.sub, scale[0], scale[1]);
    for (int half = 0; half < 2; ++half) {
      for (size_t j = 0; j < kVecs; ++j) {
        const VI centred = hn::Sub(scale[half].v[j], hn::Set(DI(), 32));
        scales.d[half].v[j] = hn::Mul(d.v[j], hn::ConvertTo(DF(), centred));
      }
    }
  }
  static HWY_INLINE void Decode(const Columns& at, int i, Pairs& low,
                                Pairs& high) {
    const uint8_t* thirds =
        at.block + 224 + at.sub * (kFifthsBytes + kHighsBytes);
    DecodeHighs(thirds + kFifthsBytes, i, low, high);
    ApplyFifthBits<true, 4>(thirds + 4 * i, low);
    ApplyFifthBits<true, 4>(thirds + 4 * (i + 8), high);
  }
};

struct DecoderQ2K {
  using Row = RowQ2K;
  static constexpr int64_t kSubBlocks = 8;
  static constexpr int64_t kBlockBytes = 16 * 84;
  static constexpr bool kHasMin = true;
  static constexpr bool kHasHalfScales = true;

  static HWY_INLINE void LoadScales(const Columns& at, Scales& scales) {
    const Rows d = LoadF16(at.block);
    const Rows dmin = LoadF16(at.block + 32);
    for (int64_t half = 0; half < 2; ++half) {
      const RowSums both = LoadU8(at.block + 64 + (2 * at.sub + half) * 16);
      for (size_t j = 0; j < kVecs; ++j) {
        const VI scale = hn::And(both.v[j], hn::Set(DI(), 15));
        const VI min = hn::ShiftRight<4>(both.v[j]);
        scales.d[half].v[j] = hn::Mul(d.v[j], hn::ConvertTo(DF(), scale));
        scales.m[half].v[j] =
            hn::Neg(hn::Mul(dmin.v[j], hn::ConvertTo(DF(), min)));
      }
    }
  }
  static HWY_INLINE void Decode(const Columns& at, int i, Pairs& low,
                                Pairs& high) {
    DecodeHighs(at.block + 320 + at.sub * kHighsBytes, i, low, high);
  }
};

struct DecoderTq10 {
  static constexpr int64_t kSubBlocks = 8;
  static constexpr int64_t kBlockBytes = 16 * 54;
  static constexpr bool kHasMin = false;
  static constexpr bool kHasHalfScales = false;

  static HWY_INLINE void LoadScales(const Columns& at, Scales& scales) {
    scales.d[0] = LoadF16(at.block);
  }
  // Decodes columns `column` and `column` + 1 of the block.
  static HWY_INLINE void DecodePair(const uint8_t* block, int column,
                                    Pairs& q) {
    const hn::RebindToUnsigned<DS> du;
    const TernaryDigit from = TernaryDigitOf(column);
    const uint8_t* bytes = block + 32 + from.byte * 16;
    // The digit is in the bits above 2^16 of three times these 16 bits.
    const VS power =
        hn::Set(DS(), static_cast<int16_t>(PowerOf3(from.digit) << 8));
    const auto three = hn::Set(du, uint16_t{3});
    for (size_t j = 0; j < kVecs; ++j) {
      const VS rest = hn::Mul(LoadPairsU8(bytes, j), power);
      const auto digit = hn::MulHigh(hn::BitCast(du, rest), three);
      q.v[j] = hn::Sub(hn::BitCast(DS(), digit), hn::Set(DS(), 1));
    }
  }
  static HWY_INLINE void Decode(const Columns& at, int i, Pairs& low,
                                Pairs& high) {
    const int column = static_cast<int>(at.sub) * 32 + 2 * i;
    DecodePair(at.block, column, low);
    DecodePair(at.block, column + 16, high);
  }
};

struct DecoderTq20 {
  using Row = RowTq20;
  static constexpr int64_t kSubBlocks = 8;
  static constexpr int64_t kBlockBytes = 16 * 66;
  static constexpr bool kHasMin = false;
  static constexpr bool kHasHalfScales = false;

  static HWY_INLINE void LoadScales(const Columns& at, Scales& scales) {
    scales.d[0] = LoadF16(at.block);
  }
  static HWY_INLINE void Decode(const Columns& at, int i, Pairs& low,
                                Pairs& high) {
    DecodeHighs(at.block + 32 + at.sub * kHighsBytes, i, low, high);
    const VS one = hn::Set(DS(), 1);
    for (size_t j = 0; j < kVecs; ++j) {
      low.v[j] = hn::Sub(low.v[j], one);
      high.v[j] = hn::Sub(high.v[j], one);
    }
  }
};

// Calls run(decoder) with the decoder of a quantised matrix.
template <typename Run>
HWY_INLINE void WithDecoder(DType dtype, bool is_split, const Run& run) {
  switch (dtype) {
    case DType::kQ8_0:
      return is_split ? run(DecoderSplitQ80()) : run(DecoderQ80());
    case DType::kQ4_0:
      return run(DecoderQ40());
    case DType::kQ4_1:
      return run(DecoderQ41());
    case DType::kQ5_0:
      return run(DecoderQ50());
    case DType::kQ5_1:
      return run(DecoderQ51());
    case DType::kQ4_K:
      return run(DecoderQ4K());
    case DType::kQ5_K:
      return run(DecoderQ5K());
    case DType::kQ6_K:
      return run(DecoderQ6K());
    case DType::kMxfp4:
      return run(DecoderMxfp4());
    case DType::kIq4Nl:
      return run(DecoderIq4Nl());
    case DType::kIq4Xs:
      return run(DecoderIq4Xs());
    case DType::kQ3_K:
      return run(DecoderQ3K());
    case DType::kQ2_K:
      return run(DecoderQ2K());
    case DType::kNvfp4:
      return run(DecoderNvfp4());
    case DType::kTq1_0:
      return run(DecoderTq10());
    case DType::kTq2_0:
      return run(DecoderTq20());
    case DType::kIq2Xs:
    case DType::kIq2S:
    case DType::kIq1M:
      return run(DecoderGrid<true>());
    case DType::kIq2Xxs:
    case DType::kIq3Xxs:
    case DType::kIq3S:
    case DType::kIq1S:
      return run(DecoderGrid<false>());
    default:
      PLIMSOLL_CHECK(false, "float types have no decoder");
  }
}
template <typename Run>
HWY_INLINE void WithDecoder(const WeightMatrix& w, const Run& run) {
  WithDecoder(w.dtype, IsSplit(w), run);
}

// Stores two columns as float32, tile[c][row], from their int16 pair.
template <class Decoder>
HWY_INLINE void StoreColumns(const Pairs& q, const Rows& d, const Rows& m,
                             float* tile) {
  for (size_t j = 0; j < kVecs; ++j) {
    const VI both = hn::BitCast(DI(), q.v[j]);
    const VI even = hn::ShiftRight<16>(hn::ShiftLeft<16>(both));
    const VI odd = hn::ShiftRight<16>(both);
    VF first = hn::Mul(hn::ConvertTo(DF(), even), d.v[j]);
    VF second = hn::Mul(hn::ConvertTo(DF(), odd), d.v[j]);
    if constexpr (Decoder::kHasMin) {
      first = hn::Add(first, m.v[j]);
      second = hn::Add(second, m.v[j]);
    }
    hn::StoreU(first, DF(), tile + j * kLanes);
    hn::StoreU(second, DF(), tile + 16 + j * kLanes);
  }
}

// Decodes columns [32 s, 32 s + 32) of a panel to tile[32][16] as float32.
template <class Decoder>
PLIMSOLL_NO_IPA void DecodeTile(const PanelData& panel, int64_t s,
                                float* tile) {
  const auto at = ColumnsAt<Decoder>(panel, s);
  Scales scales;
  Decoder::LoadScales(at, scales);
  constexpr size_t kSecond = Decoder::kHasHalfScales ? 1 : 0;
  for (int i = 0; i < 8; ++i) {
    Pairs low;
    Pairs high;
    Decoder::Decode(at, i, low, high);
    StoreColumns<Decoder>(low, scales.d[0], scales.m[0], tile + 2 * i * 16);
    StoreColumns<Decoder>(high, scales.d[kSecond], scales.m[kSecond],
                          tile + (16 + 2 * i) * 16);
  }
}

// DecodeTile for any weight type. Float types may end with fewer than 32
// columns. Returns where the tile is: `tile`, or the panel itself for float32.
HWY_INLINE const float* DecodeTile(const PanelData& panel, int64_t s,
                                   int64_t n_columns, float* tile) {
  switch (panel.dtype) {
    case DType::kF16:
      for (int64_t c = 0; c < n_columns; ++c) {
        StoreRows16(LoadF16(panel.blocks + (32 * s + c) * 32), tile + 16 * c);
      }
      return tile;
    case DType::kBF16:
      for (int64_t c = 0; c < n_columns; ++c) {
        StoreRows16(LoadBf16(panel.blocks + (32 * s + c) * 32), tile + 16 * c);
      }
      return tile;
    case DType::kF32:
      return reinterpret_cast<const float*>(panel.blocks) + 32 * s * 16;
    default:
      WithDecoder(panel.dtype, panel.low != nullptr, [&](auto decoder) {
        DecodeTile<decltype(decoder)>(panel, s, tile);
      });
      return tile;
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per instruction path
