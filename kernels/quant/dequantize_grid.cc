#include "kernels/quant/dequantize_grid.h"

#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/quant/float16.h"
#include "kernels/quant/grid_form.h"
#include "kernels/quant/grids.h"

namespace plimsoll::kernels {
namespace {

// 32 columns of a block: entries of a grid, the columns that are negative (for
// IQ1, those with a negative delta), and the scales of both halves.
struct Columns32 {
  std::span<const int32_t> grid;
  int columns_of_entry;
  uint32_t index[8];
  uint32_t negative;
  float scale[2];
};

class GridBlock {
 public:
  explicit GridBlock(const std::byte* bytes) : bytes_(bytes) {}

  uint32_t Byte(int i) const { return std::to_integer<uint32_t>(bytes_[i]); }
  uint32_t Half(int i) const { return Byte(i) | Byte(i + 1) << 8; }
  uint32_t Word(int i) const { return Half(i) | Half(i + 2) << 16; }
  float D() const { return F32FromF16(static_cast<uint16_t>(Half(0))); }

  // The signs of 32 columns from four times seven bits.
  static uint32_t EvenSigns(uint32_t sevens) {
    uint32_t signs = 0;
    for (int e = 0; e < 4; ++e) {
      signs |= SignsOf((sevens >> (7 * e)) & 127u) << (8 * e);
    }
    return signs;
  }

 private:
  const std::byte* bytes_;
};

// d * (2 s + 1) / divisor, exactly.
float Scale(float d, uint32_t s, float divisor) {
  return d * static_cast<float>(2 * s + 1) / divisor;
}

Columns32 ReadIq2Xxs(const GridBlock& block, int j) {
  Columns32 c = {kIq2XxsGrid, 8, {}, 0, {}};
  for (int e = 0; e < 4; ++e) c.index[e] = block.Byte(2 + 8 * j + e);
  const uint32_t word = block.Word(6 + 8 * j);
  c.negative = GridBlock::EvenSigns(word);
  c.scale[0] = c.scale[1] = Scale(block.D(), word >> 28, 8);
  return c;
}

Columns32 ReadIq2Xs(const GridBlock& block, int j) {
  Columns32 c = {kIq2XsGrid, 8, {}, 0, {}};
  for (int e = 0; e < 4; ++e) {
    const uint32_t both = block.Half(2 + 8 * j + 2 * e);
    c.index[e] = both & 511u;
    c.negative |= SignsOf(both >> 9) << (8 * e);
  }
  const uint32_t scales = block.Byte(66 + j);
  for (int h = 0; h < 2; ++h) {
    c.scale[h] = Scale(block.D(), (scales >> (4 * h)) & 15u, 8);
  }
  return c;
}

Columns32 ReadIq2S(const GridBlock& block, int j) {
  Columns32 c = {kIq2SGrid, 8, {}, 0, {}};
  const uint32_t high = block.Byte(66 + j);
  for (int e = 0; e < 4; ++e) {
    c.index[e] = block.Byte(2 + 4 * j + e) | ((high >> (2 * e)) & 3u) << 8;
  }
  c.negative = block.Word(34 + 4 * j);
  const uint32_t scales = block.Byte(74 + j);
  for (int h = 0; h < 2; ++h) {
    c.scale[h] = Scale(block.D(), (scales >> (4 * h)) & 15u, 8);
  }
  return c;
}

Columns32 ReadIq3Xxs(const GridBlock& block, int j) {
  Columns32 c = {kIq3XxsGrid, 4, {}, 0, {}};
  for (int e = 0; e < 8; ++e) c.index[e] = block.Byte(2 + 8 * j + e);
  const uint32_t word = block.Word(66 + 4 * j);
  c.negative = GridBlock::EvenSigns(word);
  c.scale[0] = c.scale[1] = Scale(block.D(), word >> 28, 4);
  return c;
}

Columns32 ReadIq3S(const GridBlock& block, int j) {
  Columns32 c = {kIq3SGrid, 4, {}, 0, {}};
  const uint32_t high = block.Byte(66 + j);
  for (int e = 0; e < 8; ++e) {
    c.index[e] = block.Byte(2 + 8 * j + e) | ((high >> e) & 1u) << 8;
  }
  c.negative = block.Word(74 + 4 * j);
  const uint32_t s = block.Byte(106 + j / 2) >> (4 * (j % 2));
  c.scale[0] = c.scale[1] = Scale(block.D(), s & 15u, 1);
  return c;
}

Columns32 ReadIq1S(const GridBlock& block, int j) {
  Columns32 c = {kIq1Grid, 8, {}, 0, {}};
  const uint32_t high = block.Half(34 + 2 * j);
  for (int e = 0; e < 4; ++e) {
    c.index[e] = block.Byte(2 + 4 * j + e) | ((high >> (3 * e)) & 7u) << 8;
  }
  c.negative = (high & 0x8000u) != 0 ? 0xFFFFFFFFu : 0u;
  c.scale[0] = c.scale[1] = Scale(block.D(), (high >> 12) & 7u, 8);
  return c;
}

// The scale d is in the top four bits of the four u16 of scales.
Columns32 ReadIq1M(const GridBlock& block, int j) {
  Columns32 c = {kIq1Grid, 8, {}, 0, {}};
  for (int e = 0; e < 4; ++e) {
    const uint32_t high = block.Byte(32 + 2 * j + e / 2) >> (4 * (e % 2));
    c.index[e] = block.Byte(4 * j + e) | (high & 7u) << 8;
    if ((high & 8u) != 0) c.negative |= 0xFFu << (8 * e);
  }
  uint32_t d = 0;
  for (int i = 0; i < 4; ++i) {
    d |= (block.Half(48 + 2 * i) >> 12) << (4 * i);
  }
  const uint32_t scales = block.Half(48 + j / 2 * 2) >> (6 * (j % 2));
  for (int h = 0; h < 2; ++h) {
    c.scale[h] = Scale(F32FromF16(static_cast<uint16_t>(d)),
                       (scales >> (3 * h)) & 7u, 8);
  }
  return c;
}

Columns32 ReadColumns(DType dtype, const GridBlock& block, int j) {
  switch (dtype) {
    case DType::kIq2Xxs:
      return ReadIq2Xxs(block, j);
    case DType::kIq2Xs:
      return ReadIq2Xs(block, j);
    case DType::kIq2S:
      return ReadIq2S(block, j);
    case DType::kIq3Xxs:
      return ReadIq3Xxs(block, j);
    case DType::kIq3S:
      return ReadIq3S(block, j);
    case DType::kIq1S:
      return ReadIq1S(block, j);
    default:
      return ReadIq1M(block, j);
  }
}

// What a code is worth in units of the scale.
int ValueOf(DType dtype, int code, bool is_negative) {
  constexpr int kIq2[3] = {8, 25, 43};
  constexpr int kIq3Xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};
  int value;
  switch (dtype) {
    case DType::kIq1S:
    case DType::kIq1M:  // an eighth is added or taken away
      return 8 * (code - 1) + (is_negative ? -1 : 1);
    case DType::kIq3Xxs:
      value = kIq3Xxs[code];
      break;
    case DType::kIq3S:
      value = 2 * code + 1;
      break;
    default:
      value = kIq2[code];
  }
  return is_negative ? -value : value;
}

}  // namespace

void DequantizeGridBlock(DType dtype, const std::byte* bytes, float* out) {
  const GridBlock block(bytes);
  for (int j = 0; j < 8; ++j) {
    const Columns32 c = ReadColumns(dtype, block, j);
    const int bits = 16 / c.columns_of_entry;
    for (int i = 0; i < 32; ++i) {
      const int32_t entry = c.grid[c.index[i / c.columns_of_entry]];
      const int code =
          (entry >> (i % c.columns_of_entry * bits)) & ((1 << bits) - 1);
      const bool is_negative = ((c.negative >> i) & 1u) != 0;
      out[32 * j + i] = c.scale[i / 16] *
                        static_cast<float>(ValueOf(dtype, code, is_negative));
    }
  }
}

}  // namespace plimsoll::kernels
