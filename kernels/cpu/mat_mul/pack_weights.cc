// Packing only moves bytes. It is done once for each weight, at load.
#include "kernels/cpu/mat_mul/pack_weights.h"

#include <cstring>

#include "kernels/quant/grid_form.h"

namespace plimsoll::kernels::cpu {
namespace {

using Bytes = uint8_t*;
using ConstBytes = const uint8_t*;

// Each Pack function moves one block of one row into lane `r` of a zeroed
// panel block.

void Copy2(ConstBytes from, Bytes to) { std::memcpy(to, from, 2); }

// 16 bytes of nibbles in the file's order for blocks of 32: byte j has element
// j low and element j + 16 high, which is the panel's rule as well.
void PlaceNibbles(ConstBytes qs, int64_t r, Bytes nibbles) {
  for (int64_t p = 0; p < 8; ++p) {
    Copy2(qs + 2 * p, nibbles + p * 32 + r * 2);
  }
}

void PackQ80(ConstBytes block, int64_t r, Bytes out) {
  Copy2(block, out + 2 * r);
  for (int64_t p = 0; p < 16; ++p) {
    Copy2(block + 2 + 2 * p, out + 32 + p * 32 + r * 2);
  }
}

void PackSplitQ80(ConstBytes block, int64_t r, Bytes high, Bytes low) {
  Copy2(block, high + 2 * r);
  uint8_t highs[16];
  uint8_t lows[16];
  for (int64_t i = 0; i < 16; ++i) {
    const unsigned first = block[2 + i];
    const unsigned second = block[2 + 16 + i];
    highs[i] = static_cast<uint8_t>((first >> 4) | (second & 0xF0u));
    lows[i] = static_cast<uint8_t>((first & 0x0Fu) | (second << 4));
  }
  PlaceNibbles(highs, r, high + 32);
  PlaceNibbles(lows, r, low);
}

// Bit e of `fifths` belongs to element e; two bits of a row in each pair's
// mask.
void PlaceFifthBits(uint32_t fifths, int64_t r, Bytes masks) {
  for (int64_t p = 0; p < 16; ++p) {
    uint32_t mask;
    std::memcpy(&mask, masks + 4 * p, 4);
    mask |= ((fifths >> (2 * p)) & 3u) << (2 * r);
    std::memcpy(masks + 4 * p, &mask, 4);
  }
}

void PackQ40(ConstBytes block, int64_t r, Bytes out) {
  Copy2(block, out + 2 * r);
  PlaceNibbles(block + 2, r, out + 32);
}

void PackQ41(ConstBytes block, int64_t r, Bytes out) {
  Copy2(block, out + 2 * r);
  Copy2(block + 2, out + 32 + 2 * r);
  PlaceNibbles(block + 4, r, out + 64);
}

void PackQ50(ConstBytes block, int64_t r, Bytes out) {
  Copy2(block, out + 2 * r);
  uint32_t fifths;
  std::memcpy(&fifths, block + 2, 4);
  PlaceFifthBits(fifths, r, out + 32);
  PlaceNibbles(block + 6, r, out + 32 + kFifthsBytes);
}

void PackQ51(ConstBytes block, int64_t r, Bytes out) {
  Copy2(block, out + 2 * r);
  Copy2(block + 2, out + 32 + 2 * r);
  uint32_t fifths;
  std::memcpy(&fifths, block + 4, 4);
  PlaceFifthBits(fifths, r, out + 64);
  PlaceNibbles(block + 8, r, out + 64 + kFifthsBytes);
}

// The nibbles at `shift` of 32 bytes, as PlaceNibbles takes them; eight bytes
// at a time.
void RegroupNibbles(ConstBytes q, int shift, Bytes nibbles) {
  constexpr uint64_t kLow = 0x0F0F0F0F0F0F0F0F;
  for (int64_t i = 0; i < 16; i += 8) {
    uint64_t low;
    uint64_t high;
    std::memcpy(&low, q + i, 8);
    std::memcpy(&high, q + 16 + i, 8);
    const uint64_t both =
        ((low >> shift) & kLow) | (((high >> shift) & kLow) << 4);
    std::memcpy(nibbles + i, &both, 8);
  }
}

// Places what Q4_K and Q5_K share: both scales and the twelve bytes of six-bit
// ones.
void PlaceScales6(ConstBytes block, int64_t r, Bytes out) {
  Copy2(block, out + 2 * r);
  Copy2(block + 2, out + 32 + 2 * r);
  for (int64_t i = 0; i < 12; ++i) out[64 + i * 16 + r] = block[4 + i];
}

void PackQ4K(ConstBytes block, int64_t r, Bytes out) {
  PlaceScales6(block, r, out);
  for (int64_t j = 0; j < 8; ++j) {
    uint8_t nibbles[16];
    RegroupNibbles(block + 16 + 32 * (j / 2), j % 2 == 0 ? 0 : 4, nibbles);
    PlaceNibbles(nibbles, r, out + 64 + 192 + j * kNibblesBytes);
  }
}

// Bit e is bit j of byte e.
uint32_t GatherBits(ConstBytes qh, int64_t j) {
  uint32_t bits = 0;
  for (int64_t e = 0; e < 32; ++e) {
    bits |= ((static_cast<uint32_t>(qh[e]) >> j) & 1u) << e;
  }
  return bits;
}

void PackQ5K(ConstBytes block, int64_t r, Bytes out) {
  PlaceScales6(block, r, out);
  for (int64_t j = 0; j < 8; ++j) {
    Bytes sub = out + 64 + 192 + j * (kFifthsBytes + kNibblesBytes);
    PlaceFifthBits(GatherBits(block + 16, j), r, sub);
    uint8_t nibbles[16];
    RegroupNibbles(block + 48 + 32 * (j / 2), j % 2 == 0 ? 0 : 4, nibbles);
    PlaceNibbles(nibbles, r, sub + kFifthsBytes);
  }
}

// Byte b gets the bit pairs at 2 * group of bytes b, b + 8, b + 16, b + 24.
uint64_t RegroupHighs(ConstBytes qh, int64_t group) {
  constexpr uint64_t kPair = 0x0303030303030303;
  uint64_t highs = 0;
  for (int64_t t = 0; t < 4; ++t) {
    uint64_t bytes;
    std::memcpy(&bytes, qh + 8 * t, 8);
    highs |= ((bytes >> (2 * group)) & kPair) << (2 * t);
  }
  return highs;
}

// Places the bit pairs of sub-block s of 64 bytes.
void PlaceHighs(ConstBytes qs, int64_t s, int64_t r, Bytes highs) {
  const uint64_t pairs = RegroupHighs(qs + 32 * (s / 4), s % 4);
  uint8_t bytes[8];
  std::memcpy(bytes, &pairs, 8);
  for (int64_t p = 0; p < 4; ++p) Copy2(bytes + 2 * p, highs + p * 32 + r * 2);
}

void PackQ6K(ConstBytes block, int64_t r, Bytes out) {
  Copy2(block + 208, out + 2 * r);
  for (int64_t i = 0; i < 16; ++i) out[32 + i * 16 + r] = block[192 + i];
  for (int64_t s = 0; s < 8; ++s) {
    const int64_t h = s / 4;
    const int64_t g = s % 4;
    uint8_t nibbles[16];
    RegroupNibbles(block + 64 * h + 32 * (g & 1), g < 2 ? 0 : 4, nibbles);
    Bytes sub = out + 32 + 256 + s * (kNibblesBytes + kHighsBytes);
    PlaceNibbles(nibbles, r, sub);
    PlaceHighs(block + 128, s, r, sub + kNibblesBytes);
  }
}

void PackMxfp4(ConstBytes block, int64_t r, Bytes out) {
  out[r] = block[0];
  PlaceNibbles(block + 1, r, out + 16);
}

void PackNvfp4(ConstBytes block, int64_t r, Bytes out) {
  for (int64_t i = 0; i < 4; ++i) out[i * 16 + r] = block[i];
  for (int64_t s = 0; s < 2; ++s) {
    ConstBytes first = block + 4 + 16 * s;  // columns 0..15 of 32
    ConstBytes second = first + 8;
    uint8_t nibbles[16];
    for (int64_t i = 0; i < 8; ++i) {
      const unsigned a = first[i];
      const unsigned b = second[i];
      nibbles[i] = static_cast<uint8_t>((a & 0x0Fu) | (b << 4));
      nibbles[8 + i] = static_cast<uint8_t>((a >> 4) | (b & 0xF0u));
    }
    PlaceNibbles(nibbles, r, out + 64 + s * kNibblesBytes);
  }
}

void PackIq4Xs(ConstBytes block, int64_t r, Bytes out) {
  Copy2(block, out + 2 * r);
  Copy2(block + 2, out + 32 + 2 * r);
  for (int64_t i = 0; i < 4; ++i) out[64 + i * 16 + r] = block[4 + i];
  for (int64_t j = 0; j < 8; ++j) {
    PlaceNibbles(block + 8 + 16 * j, r, out + 128 + j * kNibblesBytes);
  }
}

// The scale of columns [16 k, 16 k + 16) of Q3_K, from its twelve bytes.
unsigned ScaleOfQ3K(ConstBytes s, int64_t k) {
  const unsigned low = (s[k % 8] >> (k < 8 ? 0 : 4)) & 15u;
  return low | ((s[8 + k % 4] >> (2 * (k / 4))) & 3u) << 4;
}

void PackQ3K(ConstBytes block, int64_t r, Bytes out) {
  Copy2(block + 108, out + 2 * r);
  for (int64_t j = 0; j < 4; ++j) {
    const unsigned first = ScaleOfQ3K(block + 96, 2 * j);
    const unsigned second = ScaleOfQ3K(block + 96, 2 * j + 1);
    const unsigned later = ScaleOfQ3K(block + 96, 2 * j + 8);
    const unsigned last = ScaleOfQ3K(block + 96, 2 * j + 9);
    Bytes to = out + 32 + j * 16 + r;
    to[0] = static_cast<uint8_t>(first | (later >> 4) << 6);
    to[64] = static_cast<uint8_t>(second | (last >> 4) << 6);
    to[128] = static_cast<uint8_t>((later & 15u) | (last & 15u) << 4);
  }
  for (int64_t s = 0; s < 8; ++s) {
    Bytes sub = out + 32 + 192 + s * (kFifthsBytes + kHighsBytes);
    PlaceFifthBits(GatherBits(block, s), r, sub);
    PlaceHighs(block + 32, s, r, sub + kFifthsBytes);
  }
}

void PackQ2K(ConstBytes block, int64_t r, Bytes out) {
  Copy2(block + 80, out + 2 * r);
  Copy2(block + 82, out + 32 + 2 * r);
  for (int64_t i = 0; i < 16; ++i) out[64 + i * 16 + r] = block[i];
  for (int64_t s = 0; s < 8; ++s) {
    PlaceHighs(block + 16, s, r, out + 64 + 256 + s * kHighsBytes);
  }
}

void PackTq10(ConstBytes block, int64_t r, Bytes out) {
  Copy2(block + 52, out + 2 * r);
  for (int64_t p = 0; p < 26; ++p) {
    Copy2(block + 2 * p, out + 32 + p * 32 + 2 * r);
  }
}

void PackTq20(ConstBytes block, int64_t r, Bytes out) {
  Copy2(block + 64, out + 2 * r);
  for (int64_t s = 0; s < 8; ++s) {
    PlaceHighs(block, s, r, out + 32 + s * kHighsBytes);
  }
}

void PackGrid(const GridForm& form, ConstBytes block, int64_t r, Bytes out) {
  if (form.d >= 0) {
    Copy2(block + form.d, out + 2 * r);
    out += 32;
  }
  for (int i = 0; i < form.NumBytes(); ++i) {
    out[i * 16 + r] = block[form.ByteAt(i)];
  }
  out += 16 * form.NumBytes();
  for (int j = 0; j < 8; ++j) {
    for (int k = 0; k < form.n_words; ++k, out += 64) {
      const GridWords& words = form.words[k];
      std::memcpy(out + 4 * r, block + words.offset + j * words.stride, 4);
    }
  }
}

// Places a block of any type, in the form of a matrix that is not split.
void PackBlock(DType dtype, ConstBytes block, int64_t r, Bytes to) {
  if (IsGridType(dtype)) return PackGrid(GridFormOf(dtype), block, r, to);
  switch (dtype) {
    case DType::kQ8_0:
      return PackQ80(block, r, to);
    case DType::kQ4_0:
    case DType::kIq4Nl:
      return PackQ40(block, r, to);
    case DType::kQ4_1:
      return PackQ41(block, r, to);
    case DType::kQ5_0:
      return PackQ50(block, r, to);
    case DType::kQ5_1:
      return PackQ51(block, r, to);
    case DType::kQ4_K:
      return PackQ4K(block, r, to);
    case DType::kQ5_K:
      return PackQ5K(block, r, to);
    case DType::kQ6_K:
      return PackQ6K(block, r, to);
    case DType::kMxfp4:
      return PackMxfp4(block, r, to);
    case DType::kIq4Xs:
      return PackIq4Xs(block, r, to);
    case DType::kQ3_K:
      return PackQ3K(block, r, to);
    case DType::kQ2_K:
      return PackQ2K(block, r, to);
    case DType::kNvfp4:
      return PackNvfp4(block, r, to);
    case DType::kTq1_0:
      return PackTq10(block, r, to);
    case DType::kTq2_0:
      return PackTq20(block, r, to);
    default:  // F32, F16, BF16
      const int64_t bytes = InfoOf(dtype).block_bytes;
      std::memcpy(to + r * bytes, block, static_cast<size_t>(bytes));
  }
}

}  // namespace

PanelOffsets FindPanel(DType dtype, int64_t rows, int64_t cols, int64_t panel) {
  const DTypeInfo& info = InfoOf(dtype);
  const int64_t n_blocks = cols / info.block_elems;
  if (!IsSplit(dtype, rows, cols)) {
    return {panel * n_blocks * info.block_bytes * kPanelRows, 0};
  }
  const int64_t n_panels = (rows + kPanelRows - 1) / kPanelRows;
  return {panel * n_blocks * kHighPartBytes,
          (n_panels * kHighPartBytes + panel * kNibblesBytes) * n_blocks};
}

PanelData PanelOf(const WeightMatrix& w, int64_t panel) {
  const PanelOffsets at = FindPanel(w.dtype, w.rows, w.cols, panel);
  auto* data = reinterpret_cast<ConstBytes>(w.data);
  return {w.dtype, data + at.blocks, at.low == 0 ? nullptr : data + at.low};
}

void PackPanel(DType dtype, int64_t rows, int64_t cols, int64_t panel,
               const std::byte* file_rows, int64_t n_rows, std::byte* matrix) {
  const PanelOffsets at = FindPanel(dtype, rows, cols, panel);
  auto* out = reinterpret_cast<Bytes>(matrix) + at.blocks;
  auto* out_low = reinterpret_cast<Bytes>(matrix) + at.low;
  const DTypeInfo& info = InfoOf(dtype);
  const int64_t n_blocks = cols / info.block_elems;
  const int64_t row_bytes = n_blocks * info.block_bytes;
  const bool is_split = at.low != 0;
  const auto clear = [n_blocks](Bytes from, int64_t block_bytes) {
    std::memset(from, 0, static_cast<size_t>(n_blocks * block_bytes));
  };
  clear(out, is_split ? kHighPartBytes : kPanelRows * info.block_bytes);
  if (is_split) clear(out_low, kNibblesBytes);
  for (int64_t r = 0; r < n_rows; ++r) {
    auto* row = reinterpret_cast<ConstBytes>(file_rows) + r * row_bytes;
    for (int64_t b = 0; b < n_blocks; ++b) {
      ConstBytes block = row + b * info.block_bytes;
      if (is_split) {
        PackSplitQ80(block, r, out + b * kHighPartBytes,
                     out_low + b * kNibblesBytes);
        continue;
      }
      PackBlock(dtype, block, r, out + b * info.block_bytes * kPanelRows);
    }
  }
}

}  // namespace plimsoll::kernels::cpu
