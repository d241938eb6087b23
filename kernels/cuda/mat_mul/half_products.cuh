// The shared part of the kernels for products in F16: activations and weights
// rounded to F16, in the order that a lane of a product needs.
//
// Each row of activations is multiplied by a power of two that keeps it in
// F16's range, and rounded once for all outputs. Weights are rounded by the
// warps that multiply them.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_HALF_PRODUCTS_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_HALF_PRODUCTS_CUH_

#include "kernels/cuda/mat_mul/matrix.cuh"
#include "kernels/cuda/mat_mul/products.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// ---- Activations -----------------------------------------------------------

// The power of two above x, which is not negative. It is 1 if x is 0, or if
// there is no such power. If the scales of a row's blocks are at most x, the
// row times its inverse is less than 2^15.
__device__ inline float PowerAbove(float x) {
  constexpr uint32_t kExponent = 0x7F800000u;
  constexpr uint32_t kOne = 0x00800000u;
  const uint32_t exponent = BitsOfFloat(x) & kExponent;
  const bool has_power = exponent != 0 && exponent + kOne < kExponent - kOne;
  return has_power ? FloatOfBits(exponent + kOne) : 1.0f;
}

// The threads that round a row, and the shared memory that they need.
inline constexpr int kRoundThreads = 128;
inline constexpr int64_t kRoundSharedBytes =
    kRoundThreads / kWarpThreads * int64_t{sizeof(float)};

// A packed row that a block of threads rounds. Rows beyond the end are zeros.
struct RoundedRow {
  const std::byte* values;
  const std::byte* scales;
  bool is_row;
  float power;  // the row's values are its rounded values times this

  // All threads of the block take part.
  __device__ RoundedRow(const Activations& x, int row) {
    is_row = row < x.n_rows;
    values = x.rows + int64_t{is_row ? row : 0} * x.row_bytes;
    scales = values + x.scales;
    float largest = 0;  // fmaxf drops NaN scales
    for (int i = ThreadIndex(); i < x.to_sums / 4; i += kRoundThreads) {
      largest = fmaxf(largest, FloatAt(scales, int64_t{i} * 4));
    }
    power = PowerAbove(
        BlockMax(largest, reinterpret_cast<float*>(DynamicShared())));
  }

  // The factor for the integers of a column of tiles.
  __device__ float Scale(int64_t tile) const {
    return is_row ? FloatAt(scales, tile * 4) * (1 / power) : 0.0f;
  }
  // Four integers of a column of tiles: columns [4 which, 4 which + 4).
  __device__ uint2 Four(int64_t tile, int which) const {
    if (!is_row) return {0, 0};
    return *reinterpret_cast<const uint2*>(
        values + (tile * (kTileCols * 2) + int64_t{which} * 8));
  }
  // The first and the third of four, or the second and the fourth, in F16.
  __device__ static uint32_t Even(const uint2& four, float scale) {
    return PackPair<false>(Value(LowHalf(four.x), scale),
                           Value(LowHalf(four.y), scale));
  }
  __device__ static uint32_t Odd(const uint2& four, float scale) {
    return PackPair<false>(Value(HighHalf(four.x), scale),
                           Value(HighHalf(four.y), scale));
  }
  __device__ static float Value(uint16_t bits, float scale) {
    return static_cast<float>(static_cast<int16_t>(bits)) * scale;
  }
};

// Multiplies a warp's sums, in the order of StoreSums, by the powers of their
// rows.
template <int kGroups, int kSums>
__device__ void ScaleSums(const float* powers, int first_row,
                          float (&sums)[kSums]) {
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int row = first_row + g * kGroupRows + LaneIndex() % 4 * 2;
    const float scales[2] = {powers[row], powers[row + 1]};
#pragma unroll
    for (int i = 0; i < kSums / kGroups; ++i) {
      sums[(i / 4 * kGroups + g) * 4 + i % 4] *= scales[i % 2];
    }
  }
}

// ---- Weights ---------------------------------------------------------------

// A tile's weights in F16: for each half of its columns the operand of a
// product, with rows g and g + 8, columns 4t and 4t + 2, then 4t + 1 and 4t +
// 3.
struct HalfTile {
  uint32_t a[2][4];

  // Sets the pairs of one row and half.
  __device__ void Set(int row, int half, uint32_t even, uint32_t odd) {
    a[half][row] = even;
    a[half][2 + row] = odd;
  }
};

template <DType kType>
__device__ HalfTile Rounded(const Tile<kType>& tile) {
  constexpr bool kIsSigned = HasSignedQuants(kType);
  HalfTile rounded = {};
  for (int row = 0; row < 2; ++row) {
    uint32_t scale[HalvesOf(kType)];
    uint32_t offset[HalvesOf(kType)];
    for (int h = 0; h < HalvesOf(kType); ++h) {
      scale[h] = PackPair<false>(tile.scale[row][h], tile.scale[row][h]);
      offset[h] = PackPair<false>(tile.offset[row][h], tile.offset[row][h]);
    }
    for (int half = 0; half < 2; ++half) {
      const uint32_t quants = tile.a[2 * half + row];
      uint32_t pairs[2] = {PairOfBytes<kIsSigned, 0, 2>(quants),
                           PairOfBytes<kIsSigned, 1, 3>(quants)};
      for (uint32_t& pair : pairs) {
        const int h = half % HalvesOf(kType);
        pair = kIsSigned ? MultiplyPairs(pair, scale[h])
                         : FmaPairs(pair, scale[h], offset[h]);
      }
      rounded.Set(row, half, pairs[0], pairs[1]);
    }
  }
  return rounded;
}

// A lane's reader of a warp's tiles of quantised weights.
template <DType kType, int kTiles>
struct HalfReader {
  using Raw = RawTile<kType>;
  TileReader<kType, kTiles> tiles;

  __device__ void Begin(const DeviceMatrix& w, int first_tile) {
    tiles.Begin(w, first_tile, 0);
  }
  __device__ Raw Load(int t, int col_tile) const {
    return tiles.LoadTile(t, static_cast<uint32_t>(col_tile));
  }
  __device__ static HalfTile Round(const Raw& raw, int col_tile) {
    constexpr int kShare = PlanesOf(kType).block_tiles;
    return Rounded<kType>(Unpack(raw, col_tile % kShare));
  }
};

// A lane's reader of a warp's tiles of 16-bit float weights, which are stored
// row after row.
template <bool kIsBf16, int kTiles>
struct FloatReader {
  struct Raw {
    uint2 four[2][2];  // rows g and g + 8, each half of the columns
  };
  const uint8_t* rows[kTiles][2];

  // Rows past the end repeat the last one.
  __device__ void Begin(const DeviceMatrix& w, int first_tile) {
    const int lane = LaneIndex();
    for (int i = 0; i < 2 * kTiles; ++i) {
      const int64_t row =
          (first_tile + i / 2) * kTileRows + lane / 4 + i % 2 * 8;
      rows[i / 2][i % 2] = w.data +
                           (row < w.rows ? row : w.rows - 1) * w.cols * 2 +
                           lane % 4 * 8;
    }
  }
  __device__ Raw Load(int t, int col_tile) const {
    Raw raw;
    for (int i = 0; i < 4; ++i) {
      raw.four[i / 2][i % 2] = LoadAt<uint2>(
          rows[t][i / 2], col_tile * (kTileCols * 2) + i % 2 * kTileCols);
    }
    return raw;
  }
  __device__ static HalfTile Round(const Raw& raw, int /*col_tile*/) {
    HalfTile rounded = {};
    for (int row = 0; row < 2; ++row) {
      for (int half = 0; half < 2; ++half) {
        const uint2 four = raw.four[row][half];
        rounded.Set(row, half, InHalf(LowHalves(four.x, four.y)),
                    InHalf(HighHalves(four.x, four.y)));
      }
    }
    return rounded;
  }
  __device__ static uint32_t InHalf(uint32_t pair) {
    if constexpr (!kIsBf16) return pair;
    return PackPair<false>(Widened<true>(LowHalf(pair)),
                           Widened<true>(HighHalf(pair)));
  }
};
template <int kTiles>
struct HalfReader<DType::kF16, kTiles> : FloatReader<false, kTiles> {};
template <int kTiles>
struct HalfReader<DType::kBF16, kTiles> : FloatReader<true, kTiles> {};

// True for types that have products in F16.
constexpr bool HasHalfProduct(DType type) { return type != DType::kF32; }

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_HALF_PRODUCTS_CUH_
