// The layout of weight matrices in the CUDA backend: pure index arithmetic.
//
// Float types are stored as in the file. A quantised matrix is cut into tiles
// of 16 rows by 32 columns, tile after tile along the columns, and its bytes
// into planes, one after another, so that each part of a tile is aligned and a
// warp reads it with one load a lane, in the order in which the lanes of an
// integer matrix product (mma.m16n8k32) hold it:
//
//   quants     for each tile:  8 bits: lane l has bytes [16 l, 16 l + 16)
//                              4 bits: lane l has bytes [8 l, 8 l + 8)
//                              2 bits: lane l has bytes [4 l, 4 l + 4)
//   highs      for each tile:  one more bit as u32 a row, or Q6_K's two high
//                              bits, as other types have two bits
//   subscales  for each block of 256 columns
//   scales     for each block (of 32, 64 or 256 columns), a row: f16 d, or d
//              and m, or d and the high bits of IQ4_XS's scales, or MXFP4's
//              u8 e, or NVFP4's four scales
//
// TQ1_0, whose bytes have columns of several tiles, has as quants the 13 words
// of a block's digits, word k of a row at (16 k + slot) * 4.
//
// The types IQ1, IQ2 and IQ3 (quant/grid_form.h) have in the same planes u32
// words, word k of a row at (16 k + slot) * 4: the first two words of a tile,
// its third word, and the bytes of a block.
//
// Lane l = 4 g + t has rows g and g + 8, columns 4 t .. 4 t + 3 and the four
// columns 16 further. Single values of each row are in pairs too: rows 0, 8, 1,
// 9, ...
#ifndef PLIMSOLL_KERNELS_CUDA_WEIGHT_LAYOUT_H_
#define PLIMSOLL_KERNELS_CUDA_WEIGHT_LAYOUT_H_

#include <cstdint>

#include "base/dtype.h"
#include "kernels/quant/grid_form.h"

namespace plimsoll::kernels {

inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kTileCols = 32;
// The most columns of a matrix.
inline constexpr int64_t kMaxTiledCols = int64_t{1} << 24;

// Bytes of each plane for one tile; subscales and scales are for the tiles that
// share a block of columns. All are zero for float types.
struct TilePlanes {
  int64_t quants;
  int64_t highs;
  int64_t subscales;
  int64_t scales;
  int64_t block_tiles;  // tiles of a block of 32, 64 or 256 columns
};

constexpr TilePlanes PlanesOf(DType dtype) {
  if (IsGridType(dtype)) {
    const GridForm form = GridFormOf(dtype);
    return {(form.n_words < 2 ? 1 : 2) * 64, form.n_words == 3 ? 64 : 0,
            form.NumBytes() * 16, form.d < 0 ? 0 : 32, 8};
  }
  switch (dtype) {
    case DType::kQ8_0:
      return {512, 0, 0, 32, 1};
    case DType::kQ4_0:
      return {256, 0, 0, 32, 1};
    case DType::kQ4_1:
      return {256, 0, 0, 64, 1};
    case DType::kQ5_0:
      return {256, 64, 0, 32, 1};
    case DType::kQ5_1:
      return {256, 64, 0, 64, 1};
    case DType::kQ4_K:
      return {256, 0, 192, 64, 8};
    case DType::kQ5_K:
      return {256, 64, 192, 64, 8};
    case DType::kQ6_K:
      return {256, 128, 256, 32, 8};
    case DType::kMxfp4:
      return {256, 0, 0, 16, 1};
    case DType::kIq4Nl:
      return {256, 0, 0, 32, 1};
    case DType::kIq4Xs:
      return {256, 0, 64, 64, 8};
    case DType::kQ3_K:
      return {128, 64, 192, 32, 8};
    case DType::kQ2_K:
      return {128, 0, 256, 64, 8};
    case DType::kNvfp4:
      return {256, 0, 0, 64, 2};
    case DType::kTq1_0:
      return {104, 0, 0, 32, 8};
    case DType::kTq2_0:
      return {128, 0, 0, 32, 8};
    default:
      return {0, 0, 0, 0, 1};
  }
}

// The number of tiles whose quants are stored together.
constexpr int64_t QuantTilesOf(DType dtype) {
  return dtype == DType::kTq1_0 ? PlanesOf(dtype).block_tiles : 1;
}

constexpr bool IsTiled(DType dtype) { return PlanesOf(dtype).quants != 0; }

// The byte offsets at which the planes of a matrix begin, and its numbers of
// tiles.
struct TiledMatrix {
  int64_t row_tiles;
  int64_t col_tiles;
  int64_t highs;
  int64_t subscales;
  int64_t scales;
  int64_t bytes;

  constexpr int64_t Tile(int64_t row_tile, int64_t col_tile) const {
    return row_tile * col_tiles + col_tile;
  }
};

// Lays a matrix out. `cols` is a whole number of blocks of a quantised type.
constexpr TiledMatrix LayOut(DType dtype, int64_t rows, int64_t cols) {
  const TilePlanes planes = PlanesOf(dtype);
  TiledMatrix matrix = {};
  matrix.row_tiles = (rows + kTileRows - 1) / kTileRows;
  matrix.col_tiles = cols / kTileCols;
  const int64_t n_tiles = matrix.row_tiles * matrix.col_tiles;
  matrix.highs = n_tiles * planes.quants;
  matrix.subscales = matrix.highs + n_tiles * planes.highs;
  const int64_t n_blocks = n_tiles / planes.block_tiles;
  matrix.scales = matrix.subscales + n_blocks * planes.subscales;
  matrix.bytes = matrix.scales + n_blocks * planes.scales;
  return matrix;
}

// The index of a row in a list with one value for each row.
constexpr int RowSlot(int row) { return row % 8 * 2 + row / 8; }
constexpr int SlotRow(int slot) { return slot / 2 + slot % 2 * 8; }

// The lane that holds an element of a tile.
constexpr int LaneOf(int row, int col) { return row % 8 * 4 + col % 16 / 4; }

// The byte of an 8-bit quant inside its tile.
constexpr int QuantByte(int row, int col) {
  return LaneOf(row, col) * 16 + (col / 16 * 2 + row / 8) * 4 + col % 4;
}
// The byte and the shift of a 4-bit quant.
constexpr int NibbleByte(int row, int col) {
  return LaneOf(row, col) * 8 + row / 8 * 4 + col % 4;
}
constexpr int NibbleShift(int col) { return col / 16 * 4; }
// The byte and the shift of a 2-bit quant, or of the two high bits of a 6-bit
// one.
constexpr int HighByte(int row, int col) {
  return LaneOf(row, col) * 4 + col % 4;
}
constexpr int HighShift(int row, int col) { return col / 16 * 4 + row / 8 * 2; }

// Six-bit scales and minima of Q4_K and Q5_K: a row has three words, word w at
// (16 w + slot) * 4 of a block. For tile j, bits [4 j, 4 j + 4) are the low
// four bits of the scale (word 0), the low four bits of the minimum (word 1),
// and the high two bits of the scale and then of the minimum (word 2). Q3_K has
// the scales of a tile's two halves in the places of scale and minimum.
constexpr int ScaleOf(uint32_t lows, uint32_t highs, int tile) {
  return static_cast<int>(((lows >> (4 * tile)) & 15u) |
                          (((highs >> (4 * tile)) & 3u) << 4));
}
constexpr int MinimumOf(uint32_t lows, uint32_t highs, int tile) {
  return static_cast<int>(((lows >> (4 * tile)) & 15u) |
                          (((highs >> (4 * tile + 2)) & 3u) << 4));
}

// The scale of tile j of IQ4_XS, from a row's word of low bits, one of four
// bits for each tile, and its high bits. The words of low bits lie by slots.
constexpr int ScaleOfIq4Xs(uint32_t lows, uint32_t highs, int tile) {
  return static_cast<int>(((lows >> (4 * tile)) & 15u) |
                          (((highs >> (2 * tile)) & 3u) << 4)) -
         32;
}

// Eight bits for 16 columns, a scale of Q6_K, or a scale and a minimum of Q2_K:
// the byte of tile j of a block.
constexpr int Scale8Byte(int tile, int row, int half) {
  return (tile * 16 + RowSlot(row)) * 2 + half;
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CUDA_WEIGHT_LAYOUT_H_
