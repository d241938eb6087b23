// Activations of up to eight rows in shared memory, and a warp's sums of their
// products (mat_mul_stream.cu).
//
// An activation of 16 bits is 256 high + low, both signed bytes. The high and
// the low bytes of a row are two neighbouring columns of one product, so a lane
// has both sums of an output. Four rows fill the eight columns of a product.
//
// One row would leave six columns empty. So its product adds up four tiles,
// tile j with its bytes in columns 2 j and 2 j + 1 and zeros in the others. A
// lane then has the sums of the tile of its own columns, and scales them while
// other lanes scale the other three. Where the halves of a tile have scales of
// their own, two tiles with their halves take the places of four tiles.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_STREAM_ROWS_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_STREAM_ROWS_CUH_

#include <algorithm>

#include "kernels/cuda/barrier.cuh"
#include "kernels/cuda/mat_mul/products.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// The columns of a matrix in equal parts. The activations of eight rows fit in
// shared memory for one part.
inline constexpr int kMostStreamParts = 8;
struct StreamParts {
  static constexpr int64_t kMostTiles = 128;
  static constexpr int64_t kUnit = kStepTiles;  // whole blocks of all types

  int32_t n_parts;
  int32_t tiles;  // of a part; the last one may have fewer

  explicit StreamParts(int64_t col_tiles) {
    const int64_t wanted = (col_tiles + kMostTiles - 1) / kMostTiles;
    const int64_t equal = (col_tiles + wanted - 1) / wanted;
    const int64_t whole = (equal + kUnit - 1) / kUnit * kUnit;
    tiles = static_cast<int32_t>(whole);
    n_parts = static_cast<int32_t>((col_tiles + whole - 1) / whole);
  }
  // The columns of tiles that a block of threads has activations of.
  constexpr int64_t TilesOfBlock(int rows) const {
    return int64_t{tiles} * (rows == 1 ? n_parts : 1);
  }
};

// Picks the low bytes of four values, as signed numbers, or their high bytes,
// rounded to what is left without the low ones.
struct RowBytes {
  uint32_t half;
  uint32_t pick;

  __device__ explicit RowBytes(bool is_low)
      : half(is_low ? 0u : 0x00800080u), pick(is_low ? 0x6420u : 0x7531u) {}
  __device__ uint32_t Of(uint2 four) const {
    return PickBytes(Plus(four.x), Plus(four.y), pick);
  }
  // A carry of the lower value must not reach the upper one.
  __device__ uint32_t Plus(uint32_t two) const {
    return ((two & 0x7FFF7FFFu) + half) ^ (two & 0x80008000u);
  }
};

// The activations of up to kGroupRows rows, split into bytes.
template <DType kType, int kRows>
struct StreamColumns {
  static constexpr int kHalves = HalvesOf(kType);
  static constexpr bool kHasHalfSums = kHalves == 2 && !HasSignedQuants(kType);
  static constexpr int kRowBytes = 64;  // of a tile: 32 high and 32 low bytes
  static constexpr int kArrivals = kProductThreads;

  std::byte* values;  // [tile][row][high, low][lane % 4][half] of four bytes
  float2* scales;     // [tile][half][row]: the scale and the scaled sum
  int n_tiles;

  static constexpr int64_t Bytes(int64_t n_tiles) {
    const int64_t of_tile =
        kRows * (kRowBytes + kHalves * int64_t{sizeof(float2)});
    return (n_tiles * of_tile + 127) / 128 * 128;
  }

  StreamColumns() = default;
  __device__ StreamColumns(std::byte* at, int n_tiles)
      : values(at),
        scales(reinterpret_cast<float2*>(at + n_tiles * kRows * kRowBytes)),
        n_tiles(n_tiles) {}
  __device__ std::byte* End() const { return values + Bytes(n_tiles); }

  // Brings the columns of tiles from `begin` on. Rows that do not exist are
  // zeros. Called by the warps that multiply; `come` tells when all is there.
  __device__ void Fetch(const Activations& x, int begin, Barrier* come) const {
    // A thread has so many fours of both halves of columns on the way.
    constexpr int kBatch = 4;
    const int n = n_tiles * kRows * 4;
    for (int from = 0; from < n; from += kBatch * kProductThreads) {
      uint2 fours[kBatch][2];
      float2 scale[kBatch];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const int i = from + b * kProductThreads + ThreadIndex();
        const int tile = begin + i / (4 * kRows);
        const int row = i / 4 % kRows;
        fours[b][0] = {0, 0};
        fours[b][1] = {0, 0};
        scale[b] = {0, 0};
        if (i >= n || row >= x.n_rows) continue;
        const std::byte* packed = x.rows + int64_t{row} * x.row_bytes;
        const std::byte* four =
            packed + (tile * static_cast<int>(kTileCols * 2) + i % 4 * 8);
        fours[b][0] = *reinterpret_cast<const uint2*>(four);
        fours[b][1] = *reinterpret_cast<const uint2*>(four + 32);
        const std::byte* of_tile = packed + (x.scales + tile * 4);
        scale[b] = {FloatAt(of_tile, 0), FloatAt(of_tile, x.to_sums)};
      }
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const int i = from + b * kProductThreads + ThreadIndex();
        float2 halves[2] = {scale[b], scale[b]};
        if constexpr (kHasHalfSums) {
          for (int h = 0; h < 2; ++h) {
            halves[h].y = scale[b].x * static_cast<float>(HalfSum(fours[b][h]));
          }
        }
        if (i >= n) continue;
        std::byte* to = values + i / 4 * kRowBytes + i % 4 * 8;
        for (int low = 0; low < 2; ++low) {
          const RowBytes bytes(low);
          *reinterpret_cast<uint2*>(to + low * 32) = {bytes.Of(fours[b][0]),
                                                      bytes.Of(fours[b][1])};
        }
        if (i % 4 >= kHalves) continue;
        const int half = i % 4;
        scales[(i / (4 * kRows) * kHalves + half) * kRows + i / 4 % kRows] =
            halves[half == 0 ? 0 : 1];
      }
    }
    Arrive(come);
  }

  // The sum of the four values of each of four lanes.
  __device__ static int32_t HalfSum(uint2 four) {
    int32_t sum = SumOfHalves(four.x) + SumOfHalves(four.y);
    sum += __shfl_xor_sync(kFullWarp, sum, 1);
    sum += __shfl_xor_sync(kFullWarp, sum, 2);
    return sum;
  }
  __device__ static int32_t SumOfHalves(uint32_t two) {
    return static_cast<int16_t>(LowHalf(two)) +
           static_cast<int16_t>(HighHalf(two));
  }
};

// One row's activations as they are packed.
template <DType kType>
struct StreamColumns<kType, 1> {
  static constexpr int kArrivals = 1;

  std::byte* values;  // [tile] of 32 values
  int n_tiles;

  // The scales of all tiles follow the values, then the scaled sums.
  static constexpr int64_t Bytes(int64_t n_tiles) {
    return (n_tiles * (kTileCols * 2 + 8) + 127) / 128 * 128;
  }

  __device__ StreamColumns(std::byte* at, int n_tiles)
      : values(at), n_tiles(n_tiles) {}
  __device__ std::byte* End() const { return values + Bytes(n_tiles); }
  __device__ float Scale(int tile) const {
    return FloatAt(values, n_tiles * (kTileCols * 2) + tile * 4);
  }
  __device__ float Sum(int tile) const {
    return FloatAt(values, n_tiles * (kTileCols * 2 + 4) + tile * 4);
  }

  // Whole 16 bytes are copied; what is copied too much lies in the row.
  __device__ void Fetch(const Activations& x, int /*begin*/,
                        Barrier* come) const {
    if (ThreadIndex() != 0) return;
    const int bytes =
        (n_tiles * (static_cast<int>(kTileCols) * 2 + 8) + 15) & ~15;
    ArriveForBytes(come, bytes);
    CopyBlock(values, x.rows, bytes, come);
  }
};

// The scales of rows g and g + 8 of a tile, for one half of its columns.
struct PairOfScales {
  float scale[2];
  float offset[2];
};
template <DType kType>
__device__ PairOfScales ScalesOf(const RawTile<kType>& raw, int sub, int half) {
  PairOfScales both;
  for (int row = 0; row < 2; ++row) {
    const ScaleAndOffset by = Unpacked<kType>(raw.ScalesOf(row), sub, half);
    both.scale[row] = by.scale;
    both.offset[row] = ZeroOf(kType) != 0
                           ? static_cast<float>(-ZeroOf(kType)) * by.scale
                           : by.offset;
  }
  return both;
}

// Adds the scaled sums of a tile, or of half of it, to those of rows g and g +
// 8. `products` are the high and the low sum of each.
template <DType kType>
__device__ void AddScaled(const int32_t (&products)[4], const PairOfScales& by,
                          float2 x, float (&sums)[2]) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const int32_t total = products[2 * row] * 256 + products[2 * row + 1];
    sums[row] = Fma(static_cast<float>(total), by.scale[row] * x.x, sums[row]);
    if constexpr (!HasSignedQuants(kType)) {
      sums[row] = Fma(by.offset[row], x.y, sums[row]);
    }
  }
}

// The tiles of a slot that a warp has.
inline constexpr int kWarpTiles = 4;
// Sums that are kept apart.
inline constexpr int kPlaces = 4;

// A warp's sums for a row of tiles and up to kGroupRows rows of activations.
template <DType kType, int kRows>
struct StreamSums {
  static_assert(kRows == kGroupRows);
  static constexpr int kHalves = HalvesOf(kType);
  static constexpr int kFours = kRows / 4;  // rows, four at a time
  static constexpr int kBlockTiles = PlanesOf(kType).block_tiles;
  // What Load returns is in the slot until Add has used it.
  static constexpr bool kReadsAhead = false;
  using Columns = StreamColumns<kType, kRows>;

  // Of rows 4 m + lane % 4 of activations.
  float sums[kFours][kPlaces][2] = {};

  // Where the warp's tiles of a slot lie.
  struct Read {
    TileReader<kType, 1, true> weights;
    Columns x;
    int tile;  // the warp's first column of tiles
    int left;  // tiles from there on
  };
  __device__ static Read Load(const TileReader<kType, 1, true>& weights,
                              const Columns& x, int first, int n_tiles) {
    const int warp_tile = WarpIndex() * kWarpTiles;
    return {weights, x, first + warp_tile, n_tiles - warp_tile};
  }

  __device__ void Add(const Read& read) {
    const int warp_tile = WarpIndex() * kWarpTiles;
    const auto add = [&](int j) {
      AddTile(read.weights.LoadTile(0, static_cast<uint32_t>(j)),
              (warp_tile + j) % kBlockTiles, read.x, read.tile + j, j);
    };
    if (read.left >= kWarpTiles) {
#pragma unroll
      for (int j = 0; j < kWarpTiles; ++j) add(j);
    } else {
#pragma unroll
      for (int j = 0; j < kWarpTiles; ++j) {
        if (j < read.left) add(j);
      }
    }
  }

  __device__ void AddTile(const RawTile<kType>& raw, int sub, const Columns& x,
                          int tile, int j) {
    const int lane = LaneIndex();
    const Tile<kType> w = Unpack(raw, sub);
    PairOfScales by[kHalves];
    for (int h = 0; h < kHalves; ++h) by[h] = ScalesOf(raw, sub, h);
    const std::byte* values =
        x.values + tile * (kRows * Columns::kRowBytes) + lane * 8;
    const float2* scales = x.scales + tile * kHalves * kRows + lane % 4;
#pragma unroll
    for (int m = 0; m < kFours; ++m) {
      const auto two = *reinterpret_cast<const uint2*>(
          values + m * (4 * Columns::kRowBytes));
      const uint32_t b[2] = {two.x, two.y};
#pragma unroll
      for (int h = 0; h < kHalves; ++h) {
        int32_t products[4] = {};
        if constexpr (kHalves == 2) {
          Mma16<HasSignedQuants(kType), true>(w.a + 2 * h, b[h], products);
        } else {
          Mma32<HasSignedQuants(kType), true>(w.a, b, products);
        }
        AddScaled<kType>(products, by[h], scales[h * kRows + m * 4],
                         sums[m][j * kHalves % kPlaces + h]);
      }
    }
  }

  // Moves what the warp has to `to` [output][row].
  __device__ void Take(float* to) {
    const int lane = LaneIndex();
#pragma unroll
    for (int m = 0; m < kFours; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float(&of)[kPlaces][2] = sums[m];
        to[(lane / 4 + r * 8) * kRows + m * 4 + lane % 4] =
            (of[0][r] + of[1][r]) + (of[2][r] + of[3][r]);
        for (int p = 0; p < kPlaces; ++p) of[p][r] = 0;
      }
    }
  }
};

// For one row. A lane has place lane % 4.
template <DType kType>
struct StreamSums<kType, 1> {
  static constexpr int kHalves = HalvesOf(kType);
  static constexpr int kGroupTiles = kPlaces / kHalves;  // of one product
  static constexpr int kGroups = kWarpTiles / kGroupTiles;
  static constexpr int kBlockTiles = PlanesOf(kType).block_tiles;
  static constexpr bool kReadsAhead = true;
  using Columns = StreamColumns<kType, 1>;

  // What a lane reads of a slot. It is used later, while the next slot is read.
  struct Read {
    RawTile<kType> tiles[kWarpTiles];     // without scales
    RawTile<kType> own[kGroups];          // the scales of the lane's own tile
    uint2 columns[kGroups][2 / kHalves];  // four values of each half, or of one
    float2 scales[kGroups];               // the scale and the sum of its tile
    int left;                             // tiles from the warp's first one on
  };

  float sums[2] = {};

  // The tile whose columns this lane has, and the tile whose sums it has, of
  // those of a group.
  __device__ static int ColumnPlace() { return LaneIndex() / 8; }
  __device__ static int OwnTile() { return LaneIndex() % 4 / kHalves; }
  __device__ static int OwnHalf() { return LaneIndex() % 4 % kHalves; }

  // Reads the warp's tiles of a slot, which has `n_tiles`; `first` is the
  // slot's first column of tiles. What lies beyond its end is read and not
  // used.
  __device__ static Read Load(const TileReader<kType, 1, true>& weights,
                              const Columns& x, int first, int n_tiles) {
    const int warp_tile = WarpIndex() * kWarpTiles;
    Read read;
    read.left = n_tiles - warp_tile;
#pragma unroll
    for (int j = 0; j < kWarpTiles; ++j) {
      read.tiles[j] = weights.LoadTile(0, static_cast<uint32_t>(j));
    }
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const int tile = first + warp_tile + g * kGroupTiles;
      const int own = tile + OwnTile();
      read.own[g] = weights.LoadTile(
          0, static_cast<uint32_t>(g * kGroupTiles + OwnTile()));
      read.scales[g] = {x.Scale(own), 0};
      if constexpr (!HasSignedQuants(kType) && kHalves == 1) {
        read.scales[g].y = x.Sum(own);
      }
      const std::byte* columns =
          x.values +
          (tile + ColumnPlace() / kHalves) * static_cast<int>(kTileCols * 2) +
          ColumnPlace() % kHalves * 32 + LaneIndex() % 4 * 8;
#pragma unroll
      for (int h = 0; h < 2 / kHalves; ++h) {
        read.columns[g][h] = *reinterpret_cast<const uint2*>(columns + h * 32);
      }
    }
    return read;
  }

  __device__ void Add(const Read& read) {
    constexpr bool kHasHalfSums = kHalves == 2 && !HasSignedQuants(kType);
    const int warp_tile = WarpIndex() * kWarpTiles;
    const RowBytes bytes(LaneIndex() / 4 % 2 == 1);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const int own = g * kGroupTiles + OwnTile();
      const int of_columns = g * kGroupTiles + ColumnPlace() / kHalves;
      // Columns of tiles that are not there have no place.
      const int place = of_columns < read.left ? ColumnPlace() : kPlaces;
      uint32_t mine[2];
      for (int h = 0; h < 2; ++h) {
        mine[h] = bytes.Of(read.columns[g][h % (2 / kHalves)]);
      }
      // Two sums, so that products wait less for each other.
      int32_t products[2][4] = {};
      int32_t half_sums[4] = {};
#pragma unroll
      for (int i = 0; i < kGroupTiles; ++i) {
        const int j = g * kGroupTiles + i;
        const Tile<kType> w =
            Unpack(read.tiles[j], (warp_tile + j) % kBlockTiles);
        uint32_t b[2];
        for (int h = 0; h < 2; ++h) {
          b[h] = place == (kHalves == 2 ? 2 * i + h : i) ? mine[h] : 0;
        }
        Mma32<HasSignedQuants(kType), true>(w.a, b, products[i % 2]);
        if constexpr (kHasHalfSums) {
          constexpr uint32_t kOnes = 0x01010101u;
          const uint32_t ones[4] = {kOnes, kOnes, kOnes, kOnes};
          Mma32<true, true>(ones, b, half_sums);
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) products[0][i] += products[1][i];
      if (own >= read.left) continue;
      float2 scale = read.scales[g];
      if constexpr (kHasHalfSums) {
        scale.y =
            scale.x * static_cast<float>(half_sums[0] * 256 + half_sums[1]);
      }
      const PairOfScales by =
          ScalesOf(read.own[g], (warp_tile + own) % kBlockTiles, OwnHalf());
      AddScaled<kType>(products[0], by, scale, sums);
    }
  }

  // Moves what the warp has to `to` [output].
  __device__ void Take(float* to) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = sums[r];
      sum += __shfl_xor_sync(kFullWarp, sum, 1);
      sum += __shfl_xor_sync(kFullWarp, sum, 2);
      if (LaneIndex() % 4 == 0) to[LaneIndex() / 4 + r * 8] = sum;
      sums[r] = 0;
    }
  }
};

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_STREAM_ROWS_CUH_
