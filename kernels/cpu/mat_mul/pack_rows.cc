// Rows of a matrix in the file's order become a panel (pack_weights.h).
//
// Packing only moves bits. Most of it is one operation: units of each of 16
// rows are transposed. Where a panel has bits in another order than the file,
// the transposed bytes are regrouped, for all rows together.
#include "kernels/cpu/targets-inl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mat_mul/pack_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "hwy/highway.h"
#include "kernels/cpu/mat_mul/pack_rows-inl.h"
#include "kernels/cpu/mat_mul/panel-inl.h"
#include "kernels/cpu/mat_mul/quad_rows-inl.h"
#include "kernels/cpu/pack_weights.h"
#include "kernels/quant/grid_form.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

// to[r] = the kBytes bytes at `from` of row r.
template <size_t kBytes>
HWY_INLINE void PlaceUnit(const RowBlocks& block, int64_t from, uint8_t* to) {
  for (int64_t r = 0; r < kPanelRows; ++r) {
    std::memcpy(to + r * static_cast<int64_t>(kBytes), block[r] + from, kBytes);
  }
}

// to[u][r] = unit u of row r, for `n` units from the byte `from` on. `n` units
// are a multiple of 16 bytes.
template <typename Unit>
HWY_INLINE void TransposeUnits(const RowBlocks& block, int64_t from, int64_t n,
                               uint8_t* to) {
  constexpr int64_t kSize = sizeof(Unit);
  constexpr int64_t kUnits = 16 / kSize;
  const hn::FixedTag<uint8_t, 16> d_bytes;
  const hn::FixedTag<Unit, kUnits> d_row;
  // A vector has kUnits units of as many rows, or of twice as many.
  const hn::CappedTag<Unit, HWY_MIN(2 * kUnits, kPanelRows)> d;
  constexpr int64_t kVectorGroups = hn::MaxLanes(d) / kUnits;
  using V = hn::Vec<decltype(d)>;
  for (int64_t u = 0; u < n; u += kUnits) {
    const int64_t column = from + u * kSize;
    const auto load = [&](int64_t r) HWY_ATTR {
      return hn::BitCast(d_row, hn::LoadU(d_bytes, block[r] + column));
    };
    for (int64_t r = 0; r < kPanelRows; r += kVectorGroups * kUnits) {
      V v[kUnits];
      HWY_UNROLL(16)
      for (int64_t i = 0; i < kUnits; ++i) {
        if constexpr (kVectorGroups == 2) {
          v[i] = hn::Combine(d, load(r + kUnits + i), load(r + i));
        } else {
          v[i] = load(r + i);
        }
      }
      // Each turn moves one bit of the number of a row, its highest one, from
      // the number of a vector to that of a lane.
      HWY_UNROLL(4)
      for (int64_t turn = 1; turn < kUnits; turn *= 2) {
        V old[kUnits];
        HWY_UNROLL(16)
        for (int64_t i = 0; i < kUnits; ++i) old[i] = v[i];
        HWY_UNROLL(8)
        for (int64_t i = 0; i < kUnits / 2; ++i) {
          v[2 * i] = hn::InterleaveLower(d, old[i], old[i + kUnits / 2]);
          v[2 * i + 1] = hn::InterleaveUpper(d, old[i], old[i + kUnits / 2]);
        }
      }
      HWY_UNROLL(16)
      for (int64_t i = 0; i < kUnits; ++i) {
        hn::StoreU(hn::BitCast(hn::Repartition<uint8_t, decltype(d)>(), v[i]),
                   hn::Repartition<uint8_t, decltype(d)>(),
                   to + ((u + i) * kPanelRows + r) * kSize);
      }
    }
  }
}

#if HWY_TARGET == HWY_AVX3_DL
// Stores the units of 16 bytes of each row from the byte `from` on.
template <int kPairs>
HWY_INLINE void TransposeBytes(const RowBlocks& block, int64_t from,
                               uint8_t* to) {
  StoreUnits<kPairs>([&](int64_t r) { return block[r]; }, from, to);
}
#endif

// to[b][r] = byte `from` + b of row r, for 16 bytes.
HWY_INLINE void PlaceBytes(const RowBlocks& block, int64_t from, uint8_t* to) {
#if HWY_TARGET == HWY_AVX3_DL
  TransposeBytes<0>(block, from, to);
#else
  TransposeUnits<uint8_t>(block, from, 16, to);
#endif
}

// Transposes `n` pairs of bytes, a multiple of 8, from the byte `from` on.
HWY_INLINE void PlacePairs(const RowBlocks& block, int64_t from, int64_t n,
                           uint8_t* to) {
  TransposeUnits<uint16_t>(block, from, n, to);
}

// Bytes of a pair of all rows, and of the 16 pairs of 32 columns.
constexpr int64_t kPairBytes = 2 * kPanelRows;
constexpr int64_t kRawBytes = 16 * kPairBytes;

using DBytes = hn::CappedTag<uint8_t, kPairBytes>;
constexpr int64_t kByteLanes = hn::MaxLanes(DBytes());

// kBytes bytes of nibbles, as panels have them, from the lower or the upper
// half of twice as many bytes. By default they are those of 32 columns.
template <bool kUpper, int64_t kBytes = kNibblesBytes>
HWY_INLINE void RegroupNibbles(const uint8_t* raw, uint8_t* nibbles) {
  const DBytes d;
  const auto low = hn::Set(d, 15);
  for (int64_t i = 0; i < kBytes; i += kByteLanes) {
    const auto first = hn::LoadU(d, raw + i);
    const auto second = hn::LoadU(d, raw + kBytes + i);
    const auto both =
        kUpper ? hn::Or(hn::ShiftRight<4>(first), hn::AndNot(low, second))
               : hn::Or(hn::And(first, low), hn::ShiftLeft<4>(second));
    hn::StoreU(both, d, nibbles + i);
  }
}
HWY_INLINE void RegroupNibbles(const uint8_t* raw, bool upper,
                               uint8_t* nibbles) {
  upper ? RegroupNibbles<true>(raw, nibbles)
        : RegroupNibbles<false>(raw, nibbles);
}

// The highs of 32 columns, as panels have them, from bits 2 * group and
// 2 * group + 1 of the columns' bytes.
HWY_INLINE void RegroupHighs(const uint8_t* raw, int group, uint8_t* highs) {
  const DBytes d;
  const hn::Repartition<uint16_t, DBytes> d16;
  const auto pair = hn::Set(d16, 0x0303);
  for (int64_t i = 0; i < kHighsBytes; i += kByteLanes) {
    const auto bits = [&](int64_t t) HWY_ATTR {
      const auto bytes = hn::LoadU(d, raw + t * kHighsBytes + i);
      return hn::And(hn::ShiftRightSame(hn::BitCast(d16, bytes), 2 * group),
                     pair);
    };
    const auto lower = hn::Or(bits(0), hn::ShiftLeft<2>(bits(1)));
    const auto upper = hn::Or(bits(2), hn::ShiftLeft<2>(bits(3)));
    hn::StoreU(hn::BitCast(d, hn::Or(lower, hn::ShiftLeft<4>(upper))), d,
               highs + i);
  }
}

// The fifths of 32 columns from bit `bit` of the columns' bytes.
HWY_INLINE void RegroupFifths(const uint8_t* raw, int bit, uint8_t* fifths) {
  const DBytes d;
  const auto mask = hn::Set(d, static_cast<uint8_t>(1 << bit));
  for (int64_t i = 0; i < kRawBytes; i += kByteLanes) {
    hn::StoreMaskBits(d, hn::TestBit(hn::LoadU(d, raw + i), mask),
                      fifths + i / 8);
  }
}

// The fifths of 32 columns from 32 bits of each row at `from`.
HWY_INLINE void PlaceFifths(const RowBlocks& block, int64_t from,
                            uint8_t* fifths) {
  const hn::Rebind<uint16_t, DI> d16;
  const hn::Repartition<uint8_t, decltype(d16)> d8;
  HWY_ALIGN int32_t rows[kPanelRows];
  PlaceUnit<4>(block, from, reinterpret_cast<uint8_t*>(rows));
  for (size_t j = 0; j < kVecs; ++j) {
    VI bits = hn::Load(DI(), rows + j * kLanes);
    for (int64_t k = 0; k < 4; ++k, bits = hn::ShiftRight<8>(bits)) {
      // A row gets two bytes: its next eight bits, and these one bit lower.
      const VI byte = hn::And(bits, hn::Set(DI(), 0xFF));
      const VI both =
          hn::Or(byte, hn::And(hn::ShiftLeft<7>(byte), hn::Set(DI(), 0xFF00)));
      const auto bytes = hn::BitCast(d8, hn::DemoteTo(d16, both));
      for (int64_t p = 0; p < 4; ++p) {
        const auto mask = hn::Set(d8, static_cast<uint8_t>(1 << (2 * p)));
        hn::StoreMaskBits(d8, hn::TestBit(bytes, mask),
                          fifths + 4 * (4 * k + p) + j * kLanes / 4);
      }
    }
  }
}

// Places what Q4_K and Q5_K share: both scales and the twelve bytes of six-bit
// ones. Four more bytes of each row follow them, which the caller overwrites.
HWY_INLINE void PlaceScales6(const RowBlocks& block, uint8_t* out) {
#if HWY_TARGET == HWY_AVX3_DL
  TransposeBytes<2>(block, 0, out);
#else
  PlaceUnit<2>(block, 0, out);
  PlaceUnit<2>(block, 2, out + 32);
  PlaceBytes(block, 4, out + 64);
#endif
}

HWY_INLINE void PackQ4K(const RowBlocks& block, uint8_t* out) {
  HWY_ALIGN uint8_t raw[4 * kRawBytes];
  PlacePairs(block, 16, 64, raw);
  for (int64_t j = 0; j < 8; ++j) {
    RegroupNibbles(raw + j / 2 * kRawBytes, j % 2 == 1,
                   out + j * kNibblesBytes);
  }
}

HWY_INLINE void PackQ5K(const RowBlocks& block, uint8_t* out) {
  HWY_ALIGN uint8_t raw[5 * kRawBytes];  // fifth bits, then nibbles
  PlacePairs(block, 16, 80, raw);
  for (int64_t j = 0; j < 8; ++j) {
    uint8_t* const sub = out + j * (kFifthsBytes + kNibblesBytes);
    RegroupFifths(raw, static_cast<int>(j), sub);
    RegroupNibbles(raw + (1 + j / 2) * kRawBytes, j % 2 == 1,
                   sub + kFifthsBytes);
  }
}

HWY_INLINE void PackQ6K(const RowBlocks& block, uint8_t* out) {
  HWY_ALIGN uint8_t raw[6 * kRawBytes];  // nibbles, then high bits
  PlacePairs(block, 0, 96, raw);
  for (int64_t s = 0; s < 8; ++s) {
    const int64_t half = s / 4;
    const int64_t group = s % 4;
    uint8_t* const sub = out + s * (kNibblesBytes + kHighsBytes);
    RegroupNibbles(raw + (2 * half + group % 2) * kRawBytes, group >= 2, sub);
    RegroupHighs(raw + (4 + half) * kRawBytes, static_cast<int>(group),
                 sub + kNibblesBytes);
  }
}

HWY_INLINE void PackNvfp4(const RowBlocks& block, uint8_t* out) {
  HWY_ALIGN uint8_t raw[kRawBytes];  // eight bytes of each 16 columns
  constexpr int64_t kHalf = kNibblesBytes / 2;
  PlacePairs(block, 4, 16, raw);
  for (int64_t s = 0; s < 2; ++s) {
    const uint8_t* const from = raw + s * kNibblesBytes;
    uint8_t* const sub = out + s * kNibblesBytes;
    RegroupNibbles<false, kHalf>(from, sub);
    RegroupNibbles<true, kHalf>(from, sub + kHalf);
  }
}

// Q3_K's scales are six bits: the lower four and the upper two of columns
// [16 k, 16 k + 16), from the twelve bytes of each row.
using DScales = hn::FixedTag<uint8_t, kPanelRows>;
HWY_INLINE auto LowBitsOfQ3K(const uint8_t (*s)[kPanelRows], int k) {
  const auto byte = hn::LoadU(DScales(), s[k % 8]);
  return hn::And(hn::ShiftRightSame(byte, k < 8 ? 0 : 4),
                 hn::Set(DScales(), 15));
}
HWY_INLINE auto HighBitsOfQ3K(const uint8_t (*s)[kPanelRows], int k) {
  const auto byte = hn::LoadU(DScales(), s[8 + k % 4]);
  return hn::And(hn::ShiftRightSame(byte, 2 * (k / 4)), hn::Set(DScales(), 3));
}

HWY_INLINE void PackScalesOfQ3K(const RowBlocks& block, uint8_t* out) {
  // The block ends two bytes after the scales' begin and 16 bytes.
  uint8_t bytes[16][kPanelRows];
  PlaceBytes(block, 94, bytes[0]);
  const auto* const s = bytes + 2;
  for (int j = 0; j < 4; ++j, out += kPanelRows) {
    for (int k = 2 * j; k < 2 * j + 2; ++k) {
      const auto high = hn::Or(hn::ShiftLeft<4>(HighBitsOfQ3K(s, k)),
                               hn::ShiftLeft<6>(HighBitsOfQ3K(s, k + 8)));
      hn::StoreU(hn::Or(LowBitsOfQ3K(s, k), high), DScales(), out + k % 2 * 64);
    }
    hn::StoreU(hn::Or(LowBitsOfQ3K(s, 2 * j + 8),
                      hn::ShiftLeft<4>(LowBitsOfQ3K(s, 2 * j + 9))),
               DScales(), out + 128);
  }
}

HWY_INLINE void PackQ3K(const RowBlocks& block, uint8_t* out) {
  HWY_ALIGN uint8_t raw[3 * kRawBytes];  // third bits, then the others
  PlacePairs(block, 0, 48, raw);
  for (int64_t s = 0; s < 8; ++s) {
    uint8_t* const sub = out + s * (kFifthsBytes + kHighsBytes);
    RegroupFifths(raw, static_cast<int>(s), sub);
    RegroupHighs(raw + (1 + s / 4) * kRawBytes, static_cast<int>(s % 4),
                 sub + kFifthsBytes);
  }
}

// Packs 64 bytes of bit pairs at `from`.
HWY_INLINE void PackBitPairs(const RowBlocks& block, int64_t from,
                             uint8_t* out) {
  HWY_ALIGN uint8_t raw[2 * kRawBytes];
  PlacePairs(block, from, 32, raw);
  for (int64_t s = 0; s < 8; ++s) {
    RegroupHighs(raw + s / 4 * kRawBytes, static_cast<int>(s % 4),
                 out + s * kHighsBytes);
  }
}

HWY_INLINE void PackTq10(const RowBlocks& block, uint8_t* digits) {
  PlacePairs(block, 0, 24, digits);
  for (int64_t p = 24; p < 26; ++p) {
    PlaceUnit<2>(block, 2 * p, digits + p * kPairBytes);
  }
}

HWY_INLINE void PackGrid(const GridForm& form, const RowBlocks& block,
                         uint8_t* out) {
  if (form.d >= 0) {
    PlaceUnit<2>(block, form.d, out);
    out += 2 * kPanelRows;
  }
  for (int i = 0; i < form.NumBytes(); ++i, out += kPanelRows) {
    PlaceUnit<1>(block, form.ByteAt(i), out);
  }
  for (int j = 0; j < 8; ++j) {
    for (int k = 0; k < form.n_words; ++k, out += 4 * kPanelRows) {
      const GridWords& words = form.words[k];
      PlaceUnit<4>(block, words.offset + j * words.stride, out);
    }
  }
}

// Places the scales of a block, with which a panel's block begins. Returns the
// number of their bytes. The caller may have to overwrite some bytes more.
HWY_INLINE int64_t PlaceScales(DType dtype, const RowBlocks& block,
                               uint8_t* out) {
  switch (dtype) {
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kIq4Nl:
    case DType::kQ5_0:
      PlaceUnit<2>(block, 0, out);
      return 32;
    case DType::kQ4_1:
    case DType::kQ5_1:
      PlaceUnit<2>(block, 0, out);
      PlaceUnit<2>(block, 2, out + 32);
      return 64;
    case DType::kMxfp4:
      PlaceUnit<1>(block, 0, out);
      return 16;
    case DType::kNvfp4:
      for (int64_t i = 0; i < 4; ++i) {
        PlaceUnit<1>(block, i, out + i * kPanelRows);
      }
      return 64;
    case DType::kQ4_K:
    case DType::kQ5_K:
      PlaceScales6(block, out);
      return 256;
    case DType::kQ6_K:
      PlaceUnit<2>(block, 208, out);
      PlaceBytes(block, 192, out + 32);
      return 288;
    case DType::kIq4Xs:
      PlaceUnit<2>(block, 0, out);
      PlaceUnit<2>(block, 2, out + 32);
      for (int64_t i = 0; i < 4; ++i) {
        PlaceUnit<1>(block, 4 + i, out + 64 + i * kPanelRows);
      }
      return 128;
    case DType::kQ3_K:
      PlaceUnit<2>(block, 108, out);
      PackScalesOfQ3K(block, out + 32);
      return 224;
    case DType::kQ2_K:
      PlaceUnit<2>(block, 80, out);
      PlaceUnit<2>(block, 82, out + 32);
      PlaceBytes(block, 0, out + 64);
      return 320;
    case DType::kTq1_0:
      PlaceUnit<2>(block, 52, out);
      return 32;
    case DType::kTq2_0:
      PlaceUnit<2>(block, 64, out);
      return 32;
    default:  // PackGrid places those of the others
      return 0;
  }
}

// Packs a block of a quantised type, in the form of a matrix that is not split.
HWY_INLINE void PackBlock(DType dtype, const RowBlocks& block, uint8_t* out) {
  const int64_t scale_bytes = PlaceScales(dtype, block, out);
  uint8_t* const quants = out + scale_bytes;
  switch (dtype) {
    case DType::kQ8_0:
      return PlacePairs(block, 2, 16, quants);
    case DType::kQ4_0:
    case DType::kIq4Nl:
      return PlacePairs(block, 2, 8, quants);
    case DType::kQ4_1:
      return PlacePairs(block, 4, 8, quants);
    case DType::kQ5_0:
      PlaceFifths(block, 2, quants);
      return PlacePairs(block, 6, 8, quants + kFifthsBytes);
    case DType::kQ5_1:
      PlaceFifths(block, 4, quants);
      return PlacePairs(block, 8, 8, quants + kFifthsBytes);
    case DType::kMxfp4:
      return PlacePairs(block, 1, 8, quants);
    case DType::kNvfp4:
      return PackNvfp4(block, quants);
    case DType::kQ4_K:
      return PackQ4K(block, quants);
    case DType::kQ5_K:
      return PackQ5K(block, quants);
    case DType::kQ6_K:
      return PackQ6K(block, quants);
    case DType::kIq4Xs:
      return PlacePairs(block, 8, 64, quants);
    case DType::kQ3_K:
      return PackQ3K(block, quants);
    case DType::kQ2_K:
      return PackBitPairs(block, 16, quants);
    case DType::kTq1_0:
      return PackTq10(block, quants);
    case DType::kTq2_0:
      return PackBitPairs(block, 0, quants);
    default:
      return PackGrid(GridFormOf(dtype), block, out);
  }
}

// Packs `n` columns of a float type, whose blocks are single columns.
template <typename Unit>
HWY_INLINE void PackColumns(RowBlocks& block, int64_t n, uint8_t* out) {
  constexpr int64_t kUnits = 16 / sizeof(Unit);
  const int64_t whole = n / kUnits * kUnits;
  TransposeUnits<Unit>(block, 0, whole, out);
  for (int64_t c = whole; c < n; ++c) {
    PlaceUnit<sizeof(Unit)>(
        block, c * static_cast<int64_t>(sizeof(Unit)),
        out + c * static_cast<int64_t>(sizeof(Unit)) * kPanelRows);
  }
}

}  // namespace

void PackBlocks(DType dtype, const PanelRows& rows, int64_t first, int64_t n,
                uint8_t* out) {
  const int64_t block_bytes = InfoOf(dtype).block_bytes;
  RowBlocks block = BlocksOf(rows, first * block_bytes);
  if (dtype == DType::kF32) return PackColumns<uint32_t>(block, n, out);
  if (IsFloatType(dtype)) return PackColumns<uint16_t>(block, n, out);
  for (int64_t b = 0; b < n; ++b) {
    PackBlock(dtype, block, out);
    block.at += block_bytes;
    out += block_bytes * kPanelRows;
  }
}

void PackScales(DType dtype, RowBlocks blocks, int64_t n, uint8_t* out) {
  for (int64_t b = 0; b < n; ++b) {
    PlaceScales(dtype, blocks, out);
    blocks.at += InfoOf(dtype).block_bytes;
    out += kMostScaleBytes;
  }
}

void PackSplitBlocks(const PanelRows& rows, int64_t n, uint8_t* high,
                     uint8_t* low) {
  HWY_ALIGN uint8_t raw[kRawBytes];
  RowBlocks block = BlocksOf(rows, 0);
  for (int64_t b = 0; b < n; ++b) {
    PlaceUnit<2>(block, 0, high);
    PlacePairs(block, 2, 16, raw);
    RegroupNibbles<true>(raw, high + 32);
    RegroupNibbles<false>(raw, low);
    block.at += InfoOf(DType::kQ8_0).block_bytes;
    high += kHighBlockBytes;
    low += kNibblesBytes;
  }
}

}  // namespace plimsoll::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
