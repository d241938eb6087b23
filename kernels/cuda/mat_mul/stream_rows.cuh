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
// other lanes scale the other three. If the halves of a tile have separate
// scales, two tiles with their halves take the places of four tiles.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_STREAM_ROWS_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_STREAM_ROWS_CUH_

#include <algorithm>

#include "kernels/cuda/barrier.cuh"
#include "kernels/cuda/mat_mul/products.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// The columns of a matrix in equal slices. The activations of eight rows fit in
// shared memory for one slice.
inline constexpr int kMostStreamSlices = 8;
struct StreamSlices {
  static constexpr int64_t kMostTiles = 128;
  static constexpr int64_t kUnit = kStepTiles;  // whole blocks of all types

  int32_t n_slices;
  int32_t tiles;  // columns of tiles of a slice; the last one may have fewer

  explicit StreamSlices(int64_t col_tiles) {
    const int64_t wanted = (col_tiles + kMostTiles - 1) / kMostTiles;
    const int64_t equal = (col_tiles + wanted - 1) / wanted;
    const int64_t whole = (equal + kUnit - 1) / kUnit * kUnit;
    tiles = static_cast<int32_t>(whole);
    n_slices = static_cast<int32_t>((col_tiles + whole - 1) / whole);
  }
  // The columns of tiles whose activations a block of threads has.
  constexpr int64_t TilesOfBlock(int rows) const {
    return int64_t{tiles} * (rows == 1 ? n_slices : 1);
  }
};

// Picks the low bytes of four values, as signed numbers, or their high bytes,
// rounded so that the low bytes are the rest.
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

// Barriers that wait for activations: for their copy, and for all threads that
// store them in the form for products.
struct ColumnBarriers {
  Barrier* copied;
  Barrier* ready;

  // Called by one thread, before any other uses them.
  __device__ void Init() const {
    InitBarrier(copied, 1);
    InitBarrier(ready, kProductThreads);
  }
};

// The activations of up to kGroupRows rows, split into bytes.
template <DType kType, int kRows>
struct StreamColumns {
  static constexpr int kHalves = HalvesOf(kType);
  static constexpr bool kHasHalfSums = kHalves == 2 && !HasSignedQuants(kType);
  static constexpr int kRowBytes = 64;  // in a tile: 32 high and 32 low bytes

  std::byte* values;  // [tile][row][high, low][lane % 4][half] of four bytes
  float2* scales;     // [tile][half][row]: the scale and the scaled sum
  int n_tiles;

  static constexpr int64_t Bytes(int64_t n_tiles) {
    const int64_t of_tile =
        kRows * (kRowBytes + kHalves * int64_t{sizeof(float2)});
    return (n_tiles * of_tile + 127) / 128 * 128;
  }

  __device__ StreamColumns(std::byte* at, int n_tiles)
      : values(at),
        scales(reinterpret_cast<float2*>(at + n_tiles * kRows * kRowBytes)),
        n_tiles(n_tiles) {}
  __device__ std::byte* End() const { return values + Bytes(n_tiles); }

  // Loads the columns of tiles from `begin` on, and returns when all have
  // arrived. Rows that do not exist are zeros. Called by the warps that
  // multiply.
  __device__ void Fetch(const Activations& x, int begin,
                        const ColumnBarriers& barriers) const {
    // The number of loads, of four values of both halves of columns, that a
    // thread has on the way at once.
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
    Arrive(barriers.ready);
    WaitFor(barriers.ready, 0);
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

// One row's activations, copied in packed form and split in place.
template <DType kType>
struct StreamColumns<kType, 1> {
  static constexpr int kRowBytes = 64;

  std::byte* values;  // [tile][high, low][lane % 4][half] of four bytes
  int n_tiles;

  // The scales of all tiles follow the values, then the scaled sums.
  static constexpr int64_t Bytes(int64_t n_tiles) {
    return (n_tiles * (kRowBytes + 8) + 127) / 128 * 128;
  }

  __device__ StreamColumns(std::byte* at, int n_tiles)
      : values(at), n_tiles(n_tiles) {}
  __device__ std::byte* End() const { return values + Bytes(n_tiles); }
  __device__ float Scale(int tile) const {
    return FloatAt(values, n_tiles * kRowBytes + tile * 4);
  }
  __device__ float Sum(int tile) const {
    return FloatAt(values, n_tiles * (kRowBytes + 4) + tile * 4);
  }

  __device__ void Fetch(const Activations& x, int /*begin*/,
                        const ColumnBarriers& barriers) const {
    if (ThreadIndex() == 0) {
      // Multiples of 16 bytes are copied; the extra bytes still belong to the
      // row.
      const int bytes = (n_tiles * (kRowBytes + 8) + 15) & ~15;
      ArriveForBytes(barriers.copied, bytes);
      CopyBlock(values, x.rows, bytes, barriers.copied);
    }
    WaitFor(barriers.copied, 0);
    const RowBytes high(/*is_low=*/false);
    const RowBytes low(/*is_low=*/true);
#pragma unroll 1
    for (int i = ThreadIndex(); i < n_tiles * 4; i += kProductThreads) {
      auto* const at =
          reinterpret_cast<uint2*>(values + i / 4 * kRowBytes + i % 4 * 8);
      const uint2 first = at[0];
      const uint2 second = at[4];
      at[0] = {high.Of(first), high.Of(second)};
      at[4] = {low.Of(first), low.Of(second)};
    }
    Arrive(barriers.ready);
    WaitFor(barriers.ready, 0);
  }
};

// The scales of rows g and g + 8 of a tile, for one half of its columns.
struct PairOfScales {
  float scale[2];
  float offset[2];  // unused if there is a zero point
};
template <DType kType>
__device__ PairOfScales ScalesOf(const RawTile<kType>& raw, int sub, int half) {
  PairOfScales both;
  for (int row = 0; row < 2; ++row) {
    const ScaleAndOffset by = Unpacked<kType>(raw.ScalesOf(row), sub, half);
    both.scale[row] = by.scale;
    both.offset[row] = by.offset;
  }
  return both;
}

// Adds the scaled sums of a tile, or of half of it, to those of rows g and g +
// 8. `products` are the high and the low sum of each, multiplied by 1 / unit;
// `x` is the scale and the scaled sum of the activations.
template <DType kType>
__device__ void AddScaled(const int32_t (&products)[4], float unit,
                          const PairOfScales& by, float2 x, float (&sums)[2]) {
  const float scale = x.x * unit;
  const float zero = static_cast<float>(-ZeroOf(kType)) * x.y;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const auto total =
        static_cast<float>(products[2 * row] * 256 + products[2 * row + 1]);
    const float sum = HasSignedQuants(kType) || ZeroOf(kType) == 0
                          ? total * scale
                          : Fma(total, scale, zero);
    sums[row] = Fma(sum, by.scale[row], sums[row]);
    if constexpr (!HasSignedQuants(kType) && ZeroOf(kType) == 0) {
      sums[row] = Fma(by.offset[row], x.y, sums[row]);
    }
  }
}

// A warp's tiles of a slot.
inline constexpr int kWarpTiles = 4;
// The number of separate sums.
inline constexpr int kPlaces = 4;

// A warp's sums for a row of tiles and up to kGroupRows rows of activations.
template <DType kType, int kRows>
struct StreamSums {
  static_assert(kRows == kGroupRows);
  static constexpr int kHalves = HalvesOf(kType);
  static constexpr int kFours = kRows / 4;  // rows, four at a time
  static constexpr int kBlockTiles = PlanesOf(kType).block_tiles;
  using Columns = StreamColumns<kType, kRows>;

  // sums[m] belong to row 4 m + lane % 4 of activations.
  float sums[kFours][kPlaces][2] = {};

  // Adds the warp's tiles of a slot, which has `n_tiles`; `first` is the slot's
  // first column of tiles.
  __device__ void Add(const TileReader<kType, 1, true>& weights,
                      const Columns& x, int first, int n_tiles) {
    const int warp_tile = WarpIndex() * kWarpTiles;
    const int left = n_tiles - warp_tile;
    const auto add = [&](int j) {
      AddTile(weights.LoadTile(0, static_cast<uint32_t>(j)),
              (warp_tile + j) % kBlockTiles, x, first + warp_tile + j, j);
    };
    if (left >= kWarpTiles) {
#pragma unroll
      for (int j = 0; j < kWarpTiles; ++j) add(j);
    } else {
#pragma unroll
      for (int j = 0; j < kWarpTiles; ++j) {
        if (j < left) add(j);
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
        AddScaled<kType>(products, 1, by[h], scales[h * kRows + m * 4],
                         sums[m][j * kHalves % kPlaces + h]);
      }
    }
  }

  // Moves the warp's sums to `to` [output][row].
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

// Types whose quants are nibbles: the lower ones of a
// byte are columns of the first half, the upper ones of the second half.
constexpr bool HasNibbles(DType type) {
  return type == DType::kQ4_0 || type == DType::kQ4_1 || type == DType::kQ4_K;
}

// For one row. A lane has the columns of place lane / 8 and the sums of place
// lane % 4.
template <DType kType>
struct StreamSums<kType, 1> {
  static constexpr int kHalves = HalvesOf(kType);
  static constexpr int kGroupTiles = kPlaces / kHalves;  // tiles of one product
  static constexpr int kGroups = kWarpTiles / kGroupTiles;
  static constexpr int kBlockTiles = PlanesOf(kType).block_tiles;
  static constexpr bool kHasHalfSums = kHalves == 2 && !HasSignedQuants(kType);
  using Columns = StreamColumns<kType, 1>;

  float sums[2] = {};
  // The lane's columns of each tile of a group. Columns of other places stay
  // zeros.
  uint32_t columns[kGroupTiles][2] = {};

  __device__ void Add(const TileReader<kType, 1, true>& weights,
                      const Columns& x, int first, int n_tiles) {
    const int warp_tile = WarpIndex() * kWarpTiles;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      AddGroup(weights, x, first + warp_tile, n_tiles - warp_tile,
               g * kGroupTiles);
    }
  }

  // Adds the tiles from `at` on of the warp's tiles, which begin at column of
  // tiles `tile` and are `left` at most.
  __device__ void AddGroup(const TileReader<kType, 1, true>& weights,
                           const Columns& x, int tile, int left, int at) {
    const int own = at + LaneIndex() % 4 / kHalves;
    const int half = LaneIndex() % 4 % kHalves;
    const RawTile<kType> of_own =
        weights.LoadTile(0, static_cast<uint32_t>(own));
    float2 scale = {x.Scale(tile + own), 0};
    if constexpr (!HasSignedQuants(kType) && !kHasHalfSums) {
      scale.y = x.Sum(tile + own);
    }
    LoadColumns(x, tile + at, left - at);
    int32_t products[4] = {};
    float unit = 1;
    if constexpr (HasNibbles(kType)) {
      MultiplyNibbles(weights, at, products);
      unit = 1.0f / 16;
    } else {
      Multiply(weights, at, products);
    }
    if constexpr (kHasHalfSums) scale.y = scale.x * HalfSum();
    if (own >= left) return;
    const int sub = (WarpIndex() * kWarpTiles + own) % kBlockTiles;
    AddScaled<kType>(products, unit, ScalesOf(of_own, sub, half), scale, sums);
  }

  // Missing tiles have zeros.
  __device__ void LoadColumns(const Columns& x, int tile, int left) {
    const int place = LaneIndex() / 8;
    const std::byte* from = x.values +
                            (tile + place / kHalves) * Columns::kRowBytes +
                            LaneIndex() / 4 % 2 * 32 + LaneIndex() % 4 * 8;
#pragma unroll
    for (int i = 0; i < kGroupTiles; ++i) {
      if constexpr (kHalves == 2) {
        if (place == 2 * i) columns[i][0] = WordAt(from);
        if (place == 2 * i + 1) columns[i][1] = WordAt(from + 4);
      } else if (place == i) {
        const auto both = *reinterpret_cast<const uint2*>(from);
        columns[i][0] = both.x;
        columns[i][1] = both.y;
      }
    }
    if (left >= kGroupTiles) return;
#pragma unroll
    for (int i = 0; i < kGroupTiles; ++i) {
      if (i >= left) columns[i][0] = columns[i][1] = 0;
    }
  }
  __device__ static uint32_t WordAt(const std::byte* from) {
    return *reinterpret_cast<const uint32_t*>(from);
  }

  __device__ void Multiply(const TileReader<kType, 1, true>& weights, int at,
                           int32_t (&products)[4]) const {
#pragma unroll
    for (int i = 0; i < kGroupTiles; ++i) {
      const int j = at + i;
      const Tile<kType> w =
          Unpack(weights.LoadTile(0, static_cast<uint32_t>(j)),
                 (WarpIndex() * kWarpTiles + j) % kBlockTiles);
      Mma32<HasSignedQuants(kType), true>(w.a, columns[i], products);
    }
  }

  // A byte is 16 times its upper nibble and the lower one. So the products of
  // bytes minus the products of lower nibbles are 16 times the products of
  // upper nibbles, which then need not be unpacked. All products have the
  // factor 16 here.
  __device__ void MultiplyNibbles(const TileReader<kType, 1, true>& weights,
                                  int at, int32_t (&products)[4]) const {
    constexpr uint32_t kLow = 0x0F0F0F0Fu;
    int32_t lower[4] = {};
    int32_t too_much[4] = {};
#pragma unroll
    for (int i = 0; i < kGroupTiles; ++i) {
      const RawTile<kType> raw =
          weights.LoadTile(0, static_cast<uint32_t>(at + i));
      const uint32_t low[2] = {raw.quants[0] & kLow, raw.quants[1] & kLow};
      Mma16<false, true>(low, columns[i][0], lower);
      Mma16<false, true>(low, columns[i][1], too_much);
      Mma16<false, true>(raw.quants, columns[i][1], products);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      products[i] += lower[i] * 16 - too_much[i];
    }
  }

  // The sum of the columns of the lane's own half, from products with ones.
  __device__ float HalfSum() const {
    constexpr uint32_t kOnes = 0x01010101u;
    const uint32_t ones[4] = {kOnes, kOnes, kOnes, kOnes};
    int32_t half_sums[4] = {};
#pragma unroll
    for (int i = 0; i < kGroupTiles; ++i) {
      Mma32<true, true>(ones, columns[i], half_sums);
    }
    return static_cast<float>(half_sums[0] * 256 + half_sums[1]);
  }

  // Moves the warp's sums to `to` [output].
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
