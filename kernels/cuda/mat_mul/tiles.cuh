// Tiles of quantised weights as a warp multiplies them: 16 rows by 32 columns
// of 8-bit quants, with a scale, and for some types an offset, for each row.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_TILES_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_TILES_CUH_

#include <algorithm>

#include "kernels/cuda/mat_mul/weights.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Signed quants are the values themselves. Others are the file's numbers, whose
// zero point (Q4_0, Q5_0) or minimum is added as offset * sum(x).
constexpr bool HasSignedQuants(DType type) {
  return type == DType::kQ8_0 || type == DType::kQ6_K;
}
// The number of scales of 32 columns: Q6_K has one for every 16 columns.
constexpr int HalvesOf(DType type) { return type == DType::kQ6_K ? 2 : 1; }

// A warp takes every kStepTiles-th tile of a row of tiles. This many tiles are
// whole blocks of every type, so each plane is read at a constant stride and a
// tile has the same place in its block in every step.
inline constexpr int kStepTiles = 8;

// What a lane reads of a tile. Loads happen long before their use, so they are
// kept apart from the arithmetic.
template <DType kType>
struct RawTile {
  uint32_t quants[kType == DType::kQ8_0 ? 4 : 2];
  uint32_t highs[2];      // one word in Q6_K, else one for each row
  uint32_t subscales[6];  // rows g and g + 8 in turn
  uint32_t scales[2];
};

// Where a lane reads a warp's tiles: kRowTiles tiles of a column, in columns
// kStepTiles apart. It has a pointer for each plane, at the first row of tiles.
template <DType kType, int kRowTiles>
struct TileReader {
  static constexpr TilePlanes kPlanes = PlanesOf(kType);
  static constexpr int64_t kShare = kPlanes.block_tiles;
  static_assert(kStepTiles % kShare == 0);
  static_assert(kPlanes.subscales % kShare == 0);
  static_assert(kPlanes.scales % kShare == 0);
  const uint8_t* quants;
  const uint8_t* highs;
  const uint8_t* subscales;
  const uint8_t* scales;
  uint32_t to_row[kRowTiles];  // in tiles

  // Sets the pointers; it reads nothing. Rows of tiles beyond the end repeat
  // the last one.
  __device__ void Begin(const DeviceMatrix& w, int first_row_tile,
                        int col_tile) {
    const int lane = LaneIndex();
    const int group = lane / 4;
    const int last = static_cast<int>(w.at.row_tiles) - 1;
    const int row_tile = std::min(first_row_tile, last);
    for (int t = 0; t < kRowTiles; ++t) {
      to_row[t] = t == 0 ? 0
                         : static_cast<uint32_t>(
                               (std::min(first_row_tile + t, last) - row_tile) *
                               static_cast<int>(w.at.col_tiles));
    }
    const int64_t tile = w.at.Tile(row_tile, col_tile);
    const int64_t block = tile / kShare;
    quants = w.data + tile * kPlanes.quants +
             lane * (kType == DType::kQ8_0 ? 16 : 8);
    highs = w.data + w.at.highs + tile * kPlanes.highs +
            (HasFifths(kType) ? group * 8 : lane * 4);
    subscales = w.data + w.at.subscales + block * kPlanes.subscales +
                (kType == DType::kQ6_K
                     ? Scale8Byte(col_tile % static_cast<int>(kShare), group, 0)
                     : group * 8);
    scales = w.data + w.at.scales + block * kPlanes.scales +
             group * (HasPairScales(kType) ? 8 : 4);
  }

  __device__ void Advance(int n_steps) {
    const int n_tiles = n_steps * kStepTiles;
    quants += n_tiles * kPlanes.quants;
    highs += n_tiles * kPlanes.highs;
    subscales += n_tiles * (kPlanes.subscales / kShare);
    scales += n_tiles * (kPlanes.scales / kShare);
  }

  // Loads the tile of row t, `step` steps ahead.
  __device__ RawTile<kType> Load(int t, int step) const {
    return LoadTile(t, static_cast<uint32_t>(step * kStepTiles));
  }

  // Loads the tile of row t, `n_tiles` columns of tiles ahead. `n_tiles` is
  // whole steps, or any number if the reader stands at the beginning of a
  // block.
  __device__ RawTile<kType> LoadTile(int t, uint32_t n_tiles) const {
    RawTile<kType> raw;
    const auto at = [&](const uint8_t* plane, int64_t tile_bytes) {
      return plane + to_row[t] * tile_bytes + n_tiles * tile_bytes;
    };
    // Finds what the tiles of a block share.
    const auto of_block = [&](const uint8_t* plane, int64_t block_bytes) {
      return plane + to_row[t] * (block_bytes / kShare) +
             n_tiles / static_cast<uint32_t>(kShare) * block_bytes;
    };
    const uint8_t* quant = at(quants, kPlanes.quants);
    if constexpr (kType == DType::kQ8_0) {
      const auto words = LoadAt<uint4>(quant, 0);
      raw.quants[0] = words.x;
      raw.quants[1] = words.y;
      raw.quants[2] = words.z;
      raw.quants[3] = words.w;
    } else {
      const auto words = LoadAt<uint2>(quant, 0);
      raw.quants[0] = words.x;
      raw.quants[1] = words.y;
    }
    const uint8_t* high = at(highs, kPlanes.highs);
    if constexpr (HasFifths(kType)) {
      const auto words = LoadAt<uint2>(high, 0);
      raw.highs[0] = words.x;
      raw.highs[1] = words.y;
    } else if constexpr (kType == DType::kQ6_K) {
      raw.highs[0] = LoadAt<uint32_t>(high, 0);
    }
    const uint8_t* sub = of_block(subscales, kPlanes.subscales);
    if constexpr (kPlanes.subscales == 192) {
      for (int i = 0; i < 3; ++i) {
        const auto words = LoadAt<uint2>(sub, i * 64);
        raw.subscales[2 * i] = words.x;
        raw.subscales[2 * i + 1] = words.y;
      }
    } else if constexpr (kType == DType::kQ6_K) {
      constexpr auto kInBlock = static_cast<uint32_t>(kShare);
      raw.subscales[0] = LoadAt<uint32_t>(
          sub, n_tiles % kInBlock * (kPlanes.subscales / kShare));
    }
    const uint8_t* scale = of_block(scales, kPlanes.scales);
    if constexpr (HasPairScales(kType)) {
      const auto words = LoadAt<uint2>(scale, 0);
      raw.scales[0] = words.x;
      raw.scales[1] = words.y;
    } else {
      raw.scales[0] = LoadAt<uint32_t>(scale, 0);
    }
    return raw;
  }
};

// A tile as operands; scale and offset are those of rows g and g + 8.
template <DType kType>
struct Tile {
  uint32_t a[4] = {};
  float scale[2][HalvesOf(kType)] = {};
  float offset[2] = {};  // unused with signed quants
};

// Moves bits 0..3 to bit 4 of four bytes.
__device__ inline uint32_t SpreadFifths(uint32_t bits) {
  return (((bits & 15u) * 0x00204081u) & 0x01010101u) << 4;
}

// Subtracts 32 from each of four bytes in [0, 64).
__device__ inline uint32_t Minus32(uint32_t bytes) {
  return ((bytes | 0x80808080u) - 0x20202020u) ^ 0x80808080u;
}

template <DType kType>
__device__ void UnpackQuants(const RawTile<kType>& raw, uint32_t* a) {
  if constexpr (kType == DType::kQ8_0) {
    for (int i = 0; i < 4; ++i) a[i] = raw.quants[i];
    return;
  } else {
    constexpr uint32_t kLow = 0x0F0F0F0Fu;
    const int first_col = LaneIndex() % 4 * 4;
    for (int row = 0; row < 2; ++row) {
      a[row] = raw.quants[row] & kLow;
      a[2 + row] = (raw.quants[row] >> 4) & kLow;
      if constexpr (HasFifths(kType)) {
        a[row] |= SpreadFifths(raw.highs[row] >> first_col);
        a[2 + row] |= SpreadFifths(raw.highs[row] >> (16 + first_col));
      } else if constexpr (kType == DType::kQ6_K) {
        constexpr uint32_t kPair = 0x03030303u;
        const uint32_t high = raw.highs[0] >> (2 * row);
        a[row] = Minus32(a[row] | ((high & kPair) << 4));
        a[2 + row] = Minus32(a[2 + row] | (high & (kPair << 4)));
      }
    }
  }
}

template <DType kType>
__device__ Tile<kType> Unpack(const RawTile<kType>& raw, int sub) {
  Tile<kType> tile;
  UnpackQuants(raw, tile.a);
  for (int row = 0; row < 2; ++row) {
    if constexpr (PlanesOf(kType).subscales == 192) {
      const uint32_t highs = raw.subscales[4 + row];
      const int scale = ScaleOf(raw.subscales[row], highs, sub);
      const int minimum = MinimumOf(raw.subscales[2 + row], highs, sub);
      tile.scale[row][0] =
          FloatOfHalf(LowHalf(raw.scales[row])) * static_cast<float>(scale);
      tile.offset[row] = -(FloatOfHalf(HighHalf(raw.scales[row])) *
                           static_cast<float>(minimum));
    } else if constexpr (HasPairScales(kType)) {
      tile.scale[row][0] = FloatOfHalf(LowHalf(raw.scales[row]));
      tile.offset[row] = FloatOfHalf(HighHalf(raw.scales[row]));
    } else {
      const float d = FloatOfHalf(row == 0 ? LowHalf(raw.scales[0])
                                           : HighHalf(raw.scales[0]));
      tile.scale[row][0] = d;
      if constexpr (kType == DType::kQ4_0) tile.offset[row] = -8.0f * d;
      if constexpr (kType == DType::kQ5_0) tile.offset[row] = -16.0f * d;
      if constexpr (kType == DType::kQ6_K) {
        for (int half = 0; half < 2; ++half) {
          const uint32_t byte = raw.subscales[0] >> (16 * row + 8 * half);
          tile.scale[row][half] =
              d * static_cast<float>(static_cast<int8_t>(byte & 0xFFu));
        }
      }
    }
  }
  return tile;
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_TILES_CUH_
