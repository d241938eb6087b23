// Tiles of quantised weights, which a warp multiplies: 16 rows by 32 columns of
// 8-bit quants, with a scale, and for some types an offset, for each row.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_TILES_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_TILES_CUH_

#include <algorithm>

#include "kernels/cuda/mat_mul/weights.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Signed quants are the values themselves. Other quants are the file's numbers;
// their zero point (Q4_0, Q5_0, TQ1_0, TQ2_0) or minimum is added as offset *
// sum(x).
constexpr bool HasSignedQuants(DType type) {
  return type == DType::kQ8_0 || type == DType::kQ6_K || type == DType::kQ3_K ||
         HasTable(type) || IsGridType(type);
}
// The number of scales of 32 columns. Some types have one, and a minimum if
// any, for every 16 columns.
constexpr int HalvesOf(DType type) {
  const bool has_two = HasByteScales(type) || type == DType::kQ3_K ||
                       type == DType::kNvfp4 || type == DType::kIq2Xs ||
                       type == DType::kIq2S || type == DType::kIq1M;
  return has_two ? 2 : 1;
}

// A warp takes every kStepTiles-th tile of a row of tiles. This many tiles are
// whole blocks of every type, so each plane is read at a constant stride and a
// tile has the same place in its block in every step.
inline constexpr int kStepTiles = 8;

// A lane's part of a tile. Loads happen long before their use, so they are
// separate from the arithmetic.
template <DType kType>
struct RawTile {
  static constexpr bool kHasGrid = IsGridType(kType);
  static constexpr bool kIsTernary = kType == DType::kTq1_0;
  static constexpr bool kHasSlots = kHasGrid || kIsTernary;
  // Words of the plane of quants. Grid types and TQ1_0 have them by slots; for
  // TQ1_0 a lane reads one word for each row and half of the columns.
  static constexpr int64_t kWords =
      kIsTernary ? 4 : PlanesOf(kType).quants / (kHasGrid ? 32 : 128);
  uint32_t quants[kWords];
  uint32_t highs[2];  // one word in Q6_K, else one for each row
  // Rows g and g + 8 in turn; one word if bytes.
  uint32_t subscales[kHasGrid ? 12 : 6];
  uint32_t scales[2];  // one word if not pairs

  // The part of row g (0) or g + 8 (1) in the planes of scales.
  __device__ StoredScales ScalesOf(int row) const {
    StoredScales stored = {};
    if constexpr (kHasGrid) {
      stored.grid = GridOf(row);
    } else if constexpr (HasByteScales(kType)) {
      stored.subscales[0] = subscales[0] >> (16 * row);
    } else {
      for (int i = 0; i < PlanesOf(kType).subscales / 64; ++i) {
        stored.subscales[i] = subscales[2 * i + row];
      }
    }
    if constexpr (HasPairScales(kType)) {
      stored.scales = scales[row];
    } else if constexpr (kType == DType::kMxfp4) {
      stored.scales = (scales[0] >> (8 * row)) & 0xFFu;
    } else {
      stored.scales = row == 0 ? LowHalf(scales[0]) : HighHalf(scales[0]);
    }
    return stored;
  }

  // The part of such a row in a grid type.
  __device__ GridRow GridOf(int row) const {
    GridRow grid = {};
    for (int k = 0; k < kWords / 2; ++k) grid.words[k] = quants[2 * k + row];
    if constexpr (PlanesOf(kType).highs != 0) grid.words[2] = highs[row];
    for (int k = 0; k < PlanesOf(kType).subscales / 64; ++k) {
      grid.bytes[k] = subscales[2 * k + row];
    }
    if constexpr (PlanesOf(kType).scales != 0) {
      grid.d = row == 0 ? LowHalf(scales[0]) : HighHalf(scales[0]);
    }
    return grid;
  }
};

// Loads from memory that no kernel writes, or from shared memory.
template <class T, bool kIsShared>
__device__ T LoadFrom(const uint8_t* base, int64_t byte) {
  if constexpr (kIsShared) {
    return *reinterpret_cast<const T*>(base + byte);
  } else {
    return LoadAt<T>(base, byte);
  }
}

// The place of this lane's columns in half of tile `sub` of a block of TQ1_0.
__device__ inline TernaryDigit LaneDigit(uint32_t sub, int half) {
  return TernaryDigitOf(static_cast<int>(sub) * static_cast<int>(kTileCols) +
                        half * 16 + LaneIndex() % 4 * 4);
}

// A lane's reader of a warp's tiles: kRowTiles tiles of a column, in columns
// kStepTiles apart. It has a pointer for each plane, at the first row of tiles.
// The matrix is in shared memory if kIsShared.
template <DType kType, int kRowTiles, bool kIsShared = false>
struct TileReader {
  static constexpr TilePlanes kPlanes = PlanesOf(kType);
  static constexpr int64_t kShare = kPlanes.block_tiles;
  static constexpr int64_t kQuantTiles = QuantTilesOf(kType);
  static_assert(kStepTiles % kShare == 0);
  static_assert(kPlanes.subscales % kShare == 0);
  static_assert(kPlanes.scales % kShare == 0);
  const uint8_t* quants;
  const uint8_t* highs;
  const uint8_t* subscales;
  const uint8_t* scales;
  uint32_t to_row[kRowTiles];  // in tiles
  uint32_t first_sub;          // the first tile's place in its block

  // Sets the pointers, without reading. Rows of tiles beyond the end repeat the
  // last one.
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
    first_sub = static_cast<uint32_t>(tile % kShare);
    quants =
        w.data + tile / kQuantTiles * (kQuantTiles * kPlanes.quants) +
        (RawTile<kType>::kHasSlots ? group * 8
                                   : lane * (kPlanes.quants / kWarpThreads));
    highs = w.data + w.at.highs + tile * kPlanes.highs +
            (kPlanes.highs == 64 ? group * 8 : lane * 4);
    subscales = w.data + w.at.subscales + block * kPlanes.subscales +
                (HasByteScales(kType)
                     ? Scale8Byte(col_tile % static_cast<int>(kShare), group, 0)
                     : group * 8);
    scales = w.data + w.at.scales + block * kPlanes.scales +
             group * (kPlanes.scales / 8);
  }

  // The reader of the same tiles, `bytes` further.
  __device__ TileReader In(int64_t bytes) const {
    TileReader moved = *this;
    moved.quants += bytes;
    moved.highs += bytes;
    moved.subscales += bytes;
    moved.scales += bytes;
    return moved;
  }

  __device__ void Advance(int n_steps) {
    const int n_tiles = n_steps * kStepTiles;
    quants += n_tiles * kPlanes.quants;
    highs += n_tiles * kPlanes.highs;
    subscales += n_tiles * (kPlanes.subscales / kShare);
    scales += n_tiles * (kPlanes.scales / kShare);
  }

  // Advances by any number of tiles, for a type whose tiles share no block.
  __device__ void AdvanceTiles(int n_tiles) {
    static_assert(kShare == 1);
    quants += n_tiles * kPlanes.quants;
    highs += n_tiles * kPlanes.highs;
    subscales += n_tiles * kPlanes.subscales;
    scales += n_tiles * kPlanes.scales;
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
    // Finds the data that the tiles of a block share.
    const auto of_block = [&](const uint8_t* plane, int64_t block_bytes) {
      return plane + to_row[t] * (block_bytes / kShare) +
             n_tiles / static_cast<uint32_t>(kShare) * block_bytes;
    };
    const uint8_t* quant = at(quants, kPlanes.quants);
    if constexpr (RawTile<kType>::kIsTernary) {
      quant = of_block(quants, kQuantTiles * kPlanes.quants);
      const uint32_t sub = first_sub + n_tiles % static_cast<uint32_t>(kShare);
      for (int half = 0; half < 2; ++half) {
        LoadTwo(quant + TernaryWordAt(LaneDigit(sub, half), 0),
                raw.quants + 2 * half);
      }
    } else if constexpr (RawTile<kType>::kHasGrid) {
      for (int k = 0; k < RawTile<kType>::kWords / 2; ++k) {
        LoadTwo(quant + k * 64, raw.quants + 2 * k);
      }
    } else if constexpr (RawTile<kType>::kWords == 4) {
      const auto words = LoadFrom<uint4, kIsShared>(quant, 0);
      raw.quants[0] = words.x;
      raw.quants[1] = words.y;
      raw.quants[2] = words.z;
      raw.quants[3] = words.w;
    } else if constexpr (RawTile<kType>::kWords == 2) {
      LoadTwo(quant, raw.quants);
    } else {
      raw.quants[0] = LoadFrom<uint32_t, kIsShared>(quant, 0);
    }
    const uint8_t* high = at(highs, kPlanes.highs);
    if constexpr (kPlanes.highs == 64) {
      LoadTwo(high, raw.highs);
    } else if constexpr (kType == DType::kQ6_K) {
      raw.highs[0] = LoadFrom<uint32_t, kIsShared>(high, 0);
    }
    const uint8_t* sub = of_block(subscales, kPlanes.subscales);
    if constexpr (HasByteScales(kType)) {
      constexpr auto kInBlock = static_cast<uint32_t>(kShare);
      raw.subscales[0] = LoadFrom<uint32_t, kIsShared>(
          sub, n_tiles % kInBlock * (kPlanes.subscales / kShare));
    } else {
      for (int i = 0; i < kPlanes.subscales / 64; ++i) {
        LoadTwo(sub + i * 64, raw.subscales + 2 * i);
      }
    }
    const uint8_t* scale = of_block(scales, kPlanes.scales);
    if constexpr (HasPairScales(kType)) {
      LoadTwo(scale, raw.scales);
    } else if constexpr (kType == DType::kMxfp4) {
      raw.scales[0] = LoadFrom<uint16_t, kIsShared>(scale, 0);
    } else if constexpr (kPlanes.scales != 0) {
      raw.scales[0] = LoadFrom<uint32_t, kIsShared>(scale, 0);
    }
    return raw;
  }

 private:
  static __device__ void LoadTwo(const uint8_t* from, uint32_t* to) {
    const auto words = LoadFrom<uint2, kIsShared>(from, 0);
    to[0] = words.x;
    to[1] = words.y;
  }
};

// A tile as operands; scale and offset belong to rows g and g + 8.
template <DType kType>
struct Tile {
  uint32_t a[4] = {};
  float scale[2][HalvesOf(kType)] = {};
  float offset[2][HalvesOf(kType)] = {};  // unused with signed quants
};

// Moves bits 0..3 to bit 4 of four bytes.
__device__ inline uint32_t SpreadFifths(uint32_t bits) {
  return (((bits & 15u) * 0x00204081u) & 0x01010101u) << 4;
}

// Subtracts kZero from each of four bytes in [0, 2 kZero).
template <uint32_t kZero>
__device__ uint32_t Minus(uint32_t bytes) {
  return ((bytes | 0x80808080u) - kZero * 0x01010101u) ^ 0x80808080u;
}

// Unpacks nibbles, without bits from other planes.
template <DType kType>
__device__ void UnpackNibbles(const RawTile<kType>& raw, uint32_t* a) {
  constexpr uint32_t kLow = 0x0F0F0F0Fu;
  for (int row = 0; row < 2; ++row) {
    const uint32_t both = raw.quants[row];
    if constexpr (HasTable(kType)) {
      const uint32_t first = LookUp<kType>(both);
      const uint32_t second = LookUp<kType>(both >> 16);
      a[row] = PickBytes(first, second, 0x6420u);
      a[2 + row] = PickBytes(first, second, 0x7531u);
    } else {
      a[row] = both & kLow;
      a[2 + row] = (both >> 4) & kLow;
    }
  }
}

template <DType kType>
__device__ void UnpackQuants(const RawTile<kType>& raw, uint32_t* a) {
  [[maybe_unused]] constexpr uint32_t kPair = 0x03030303u;
  if constexpr (kType == DType::kQ8_0) {
    for (int i = 0; i < 4; ++i) a[i] = raw.quants[i];
  } else if constexpr (HasBitPairs(kType)) {
    for (int i = 0; i < 4; ++i) a[i] = (raw.quants[0] >> (2 * i)) & kPair;
  } else {
    UnpackNibbles(raw, a);
  }
  for (int row = 0; row < 2; ++row) {
    if constexpr (HasFifths(kType)) {
      constexpr int kDown = HasBitPairs(kType) ? 2 : 0;
      const int first_col = LaneIndex() % 4 * 4;
      a[row] |= SpreadFifths(raw.highs[row] >> first_col) >> kDown;
      a[2 + row] |= SpreadFifths(raw.highs[row] >> (16 + first_col)) >> kDown;
    } else if constexpr (kType == DType::kQ6_K) {
      const uint32_t high = raw.highs[0] >> (2 * row);
      a[row] |= (high & kPair) << 4;
      a[2 + row] |= high & (kPair << 4);
    }
  }
  if constexpr (HasSignedQuants(kType) && ZeroOf(kType) != 0) {
    for (int i = 0; i < 4; ++i) a[i] = Minus<ZeroOf(kType)>(a[i]);
  }
}

template <DType kType>
__device__ Tile<kType> Unpack(const RawTile<kType>& raw, int sub) {
  Tile<kType> tile;
  if constexpr (RawTile<kType>::kIsTernary) {
    for (int i = 0; i < 4; ++i) {
      const TernaryDigit at = LaneDigit(static_cast<uint32_t>(sub), i / 2);
      tile.a[i] = TernaryDigits(raw.quants[i], at.digit);
    }
  } else if constexpr (!IsGridType(kType)) {
    UnpackQuants(raw, tile.a);
  }
  for (int row = 0; row < 2; ++row) {
    const StoredScales stored = raw.ScalesOf(row);
    for (int half = 0; RawTile<kType>::kHasGrid && half < 2; ++half) {
      tile.a[2 * half + row] =
          GridQuants<kType>(stored.grid, sub, half, LaneIndex() % 4);
    }
    for (int half = 0; half < HalvesOf(kType); ++half) {
      const ScaleAndOffset by = Unpacked<kType>(stored, sub, half);
      tile.scale[row][half] = by.scale;
      tile.offset[row][half] =
          ZeroOf(kType) != 0 ? static_cast<float>(-ZeroOf(kType)) * by.scale
                             : by.offset;
    }
  }
  return tile;
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_TILES_CUH_
