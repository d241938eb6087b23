// The shared part of the kernels for integer products: their matrices, a warp's
// reader of activations, and the exact product of a tile.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_PRODUCTS_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_PRODUCTS_CUH_

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/cuda/mat_mul/tiles.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/quant/packed_row.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

inline constexpr int kProductWarps = kStepTiles;
inline constexpr int kProductThreads = kProductWarps * kWarpThreads;
inline constexpr int kGroupRows = 8;       // activation rows of one product
inline constexpr size_t kMaxProducts = 4;  // one launch's products
static_assert(kTileCols == kActivationBlock);

// Offsets between a warp's rows, which are 4 groups at most, fit in 32 bits.
static_assert(PackedRowBytes(kMaxTiledCols) <= INT32_MAX / (4 * kGroupRows));

// Packed rows, in the layout of packed_row.h.
struct Activations {
  const std::byte* rows;
  int32_t n_rows;
  int32_t row_bytes;
  int32_t scales;   // in a row
  int32_t to_sums;  // from the scales

  explicit Activations(const MatMulArgs& args)
      : rows(args.packed),
        n_rows(static_cast<int32_t>(args.n_rows)),
        row_bytes(static_cast<int32_t>(PackedRowBytes(args.w.cols))),
        scales(static_cast<int32_t>(PackedScalesOffset(args.w.cols))),
        to_sums(static_cast<int32_t>(PackedSumsOffset(args.w.cols)) - scales) {}
};

// A matrix of a launch. All matrices of a launch have one type and the same
// activations.
struct Product {
  DeviceMatrix w;
  float* out;
  int32_t end;  // end of its groups of row tiles in the launch
};
struct Products {
  Product of[kMaxProducts];
};

__device__ inline float FloatAt(const std::byte* base, int64_t byte) {
  return *reinterpret_cast<const float*>(base + byte);
}

// A lane's reader of the activations of a warp's groups of rows. It reads
// columns of tiles that are kStepTiles apart. Rows beyond the end repeat the
// last one; their outputs are not stored.
template <int kGroups>
struct ActivationReader {
  const std::byte* values;  // the first group's: row g, this lane's columns
  const std::byte* scales;  // row 2t
  // Offsets from `values` and `scales`, in bytes. A warp's rows are within 2
  // GiB, and 32 bits take half the registers of a pointer.
  uint32_t to_values[kGroups];
  uint32_t to_scales[kGroups][2];  // scales of rows 2t and 2t + 1
  uint32_t to_sums;

  // Sets the pointers, without reading.
  __device__ void Begin(const Activations& x, int first_row, int col_tile) {
    const int lane = LaneIndex();
    const auto row_at = [&](int row) {
      return std::min(first_row + row, x.n_rows - 1);
    };
    const int value_row = row_at(lane / 4);
    const int scale_row = row_at(lane % 4 * 2);
    values = x.rows + int64_t{value_row} * x.row_bytes +
             (col_tile * static_cast<int>(kTileCols * 2) + lane % 4 * 8);
    scales =
        x.rows + int64_t{scale_row} * x.row_bytes + (x.scales + col_tile * 4);
    to_sums = static_cast<uint32_t>(x.to_sums);
    const auto bytes_to = [&](int row, int from) {
      return static_cast<uint32_t>((row_at(row) - from) * x.row_bytes);
    };
    for (int g = 0; g < kGroups; ++g) {
      const int row = g * kGroupRows;
      const int even_row = row + lane % 4 * 2;
      to_values[g] = g == 0 ? 0 : bytes_to(row + lane / 4, value_row);
      to_scales[g][0] = g == 0 ? 0 : bytes_to(even_row, scale_row);
      to_scales[g][1] = bytes_to(even_row + 1, scale_row);
    }
  }

  __device__ void Advance(int n_steps) {
    values += n_steps * (kStepTiles * kTileCols * 2);
    scales += n_steps * (kStepTiles * 4);
  }

  // The values of half of a column of tiles, `step` steps ahead.
  __device__ uint2 Values(int group, int step, int half) const {
    return *reinterpret_cast<const uint2*>(
        values + to_values[group] +
        (step * (kStepTiles * kTileCols * 2) + half * 32));
  }
  __device__ float Scale(int group, int step, int column) const {
    return FloatAt(scales + to_scales[group][column], step * (kStepTiles * 4));
  }
  __device__ float Sum(int group, int step, int column) const {
    return FloatAt(scales + to_sums + to_scales[group][column],
                   step * (kStepTiles * 4));
  }
};

// The operands of one group for one tile of columns.
struct Operands {
  uint32_t high[2];
  uint32_t low[2];
  float scale[2];
  float sum[2];  // scale * sum of values

  // Loads the operands of the tile `step` steps ahead.
  template <bool kHasOffset, int kGroups>
  __device__ void Load(const ActivationReader<kGroups>& x, int group,
                       int step) {
    for (int half = 0; half < 2; ++half) {
      const uint2 values = x.Values(group, step, half);
      high[half] = HighBytes(values);
      low[half] = LowBytes(values);
    }
    for (int c = 0; c < 2; ++c) {
      scale[c] = x.Scale(group, step, c);
      if constexpr (kHasOffset) sum[c] = x.Sum(group, step, c);
    }
  }
};

// The sums of a group's activations over each half of a tile's columns:
// products with ones.
struct HalfSums {
  int32_t high[2][4];
  int32_t low[2][4];

  __device__ void Set(const Operands& x) {
    const uint32_t ones[2] = {0x01010101u, 0x01010101u};
    for (int h = 0; h < 2; ++h) {
      Mma16<false, true>(ones, x.high[h], high[h]);
      Mma16<false, false>(ones, x.low[h], low[h]);
    }
  }
  __device__ float Of(int half, int column) const {
    return static_cast<float>(high[half][column] * 256 + low[half][column]);
  }
};

// sums += the exact product of a tile and a group. kIsSingle skips the columns
// of rows that do not exist, for a product of one row.
template <DType kType, bool kIsSingle>
__device__ void Accumulate(const Tile<kType>& w, const Operands& x,
                           float* sums) {
  constexpr bool kIsSigned = HasSignedQuants(kType);
  constexpr int kHalves = HalvesOf(kType);
  int32_t high[kHalves][4] = {};
  int32_t low[kHalves][4] = {};
  if constexpr (kHalves == 2) {
    for (int h = 0; h < 2; ++h) {
      Mma16<kIsSigned, true>(w.a + 2 * h, x.high[h], high[h]);
      Mma16<kIsSigned, false>(w.a + 2 * h, x.low[h], low[h]);
    }
  } else {
    Mma32<kIsSigned, true>(w.a, x.high, high[0]);
    Mma32<kIsSigned, false>(w.a, x.low, low[0]);
  }
  constexpr bool kHasHalfOffsets = kHalves == 2 && !kIsSigned;
  HalfSums of_halves = {};
  if constexpr (kHasHalfOffsets) of_halves.Set(x);
  for (int e = 0; e < 4; e += kIsSingle ? 2 : 1) {
    const int row = e / 2;
    const int column = e % 2;
    const auto total = [&](int h) {
      return static_cast<float>(high[h][e] * 256 + low[h][e]);
    };
    if constexpr (kHalves == 2) {
      float sum = Fma(total(1), w.scale[row][1], total(0) * w.scale[row][0]);
      for (int h = 0; kHasHalfOffsets && h < 2; ++h) {
        sum = Fma(of_halves.Of(h, column), w.offset[row][h], sum);
      }
      sums[e] = Fma(sum, x.scale[column], sums[e]);
    } else {
      sums[e] = Fma(total(0), w.scale[row][0] * x.scale[column], sums[e]);
    }
    if constexpr (!kIsSigned && !kHasHalfOffsets) {
      sums[e] = Fma(w.offset[row][0], x.sum[column], sums[e]);
    }
  }
}

// Adds the warps' sums as a tree; warp 0 gets the result.
template <int kN>
__device__ void AddWarps(float* sums, float* shared) {
  const int lane = LaneIndex();
  const int warp = WarpIndex();
  for (int stride = kProductWarps / 2; stride > 0; stride /= 2) {
    if (warp >= stride && warp < 2 * stride) {
      for (int i = 0; i < kN; ++i) {
        shared[((warp - stride) * kN + i) * kWarpThreads + lane] = sums[i];
      }
    }
    __syncthreads();
    if (warp < stride) {
      for (int i = 0; i < kN; ++i) {
        sums[i] += shared[(warp * kN + i) * kWarpThreads + lane];
      }
    }
    __syncthreads();
  }
}

// The number of tiles of columns that a warp loads while it works on one. A
// multiprocessor needs about 32 KiB on the way to use its share of the
// bandwidth; Q8_0 reaches this with fewer tiles. Types with many scales, and
// many sums, leave registers for fewer.
constexpr int Depth(DType type, int n_products) {
  const bool is_plain =
      PlanesOf(type).highs == 0 && PlanesOf(type).subscales == 0;
  if (n_products > 1) return is_plain ? 2 : 1;
  if (type == DType::kQ8_0) return 3;
  return is_plain ? 4 : 2;
}

// Makes one launch of `products`, which are alike and at most kMaxProducts in
// number. Each is cut into groups of `group_tiles` tiles of outputs; `n_groups`
// gets their number.
inline Products ProductsOf(std::span<const MatMulArgs> products,
                           int64_t group_tiles, int64_t& n_groups) {
  Products all = {};
  n_groups = 0;
  for (size_t i = 0; i < products.size(); ++i) {
    const DeviceMatrix w = MatrixOf(products[i].w);
    n_groups += (w.at.row_tiles + group_tiles - 1) / group_tiles;
    all.of[i] = {w, products[i].out, static_cast<int32_t>(n_groups)};
  }
  return all;
}

// Returns the product that group `index` belongs to; `index` becomes the
// group's index in it.
__device__ inline const Product& FindProduct(const Products& products,
                                             int& index) {
  int which = 0;
  while (index >= products.of[which].end) ++which;
  if (which > 0) index -= products.of[which - 1].end;
  return products.of[which];
}

// Where a warp's outputs are: in tiles from `first_tile` on and groups of rows
// from `first_row` on. There are `n_rows` rows.
struct OutputPlace {
  int first_tile;
  int first_row;
  int n_rows;
  bool accumulate;
};

// Stores a warp's sums, scaled, or adds them to the outputs. sums[(t * kGroups
// + g) * 4 ...] belong to tile t and group g, spread over the lanes like the
// instruction's results.
template <int kGroups, int kSums>
__device__ inline void StoreSums(const float (&sums)[kSums],
                                 const Product& product, OutputPlace place) {
  const int64_t n_outputs = product.w.rows;
  const int lane = LaneIndex();
  const float scale = product.w.Scale();
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const int64_t output = (place.first_tile + i / (4 * kGroups)) * kTileRows +
                           (lane / 4 + i % 4 / 2 * 8);
    const int row =
        place.first_row + i / 4 % kGroups * kGroupRows + lane % 4 * 2 + i % 2;
    if (output >= n_outputs || row >= place.n_rows) continue;
    float& to = product.out[row * n_outputs + output];
    const float sum = sums[i] * scale;
    to = place.accumulate ? to + sum : sum;
  }
}

// Products of up to kGroupRows rows, whose weights go through shared memory
// (mat_mul_stream.cu). HasStreamProduct is true for matrices whose rows are not
// too long for this kernel, CanStream if the device and its code support it.
void MultiplyStream(const Context& context,
                    std::span<const MatMulArgs> products);
bool HasStreamProduct(const WeightMatrix& w);

// Products of many rows. MultiplyPrompt is exact (mat_mul_prompt.cu).
// MultiplyHalf rounds weights and activations to F16 (mat_mul_half.cu);
// HasHalfProduct is true for matrices that MultiplyHalf can take, which must
// not have too many columns.
void MultiplyPrompt(const Context& context,
                    std::span<const MatMulArgs> products);
void MultiplyHalf(const Context& context, std::span<const MatMulArgs> products);
bool HasHalfProduct(const WeightMatrix& w);
// MultiplyWgmma rounds in the same way, with the instructions of compute
// capability 9.0 (mat_mul_wgmma.cu), for at most WgmmaRowsThatFit rows.
void MultiplyWgmma(const Context& context,
                   std::span<const MatMulArgs> products);
bool HasWgmmaProduct(const WeightMatrix& w);
int64_t WgmmaRowsThatFit(const Context& context,
                         std::span<const MatMulArgs> products);
// MultiplyFewRows is a separate kernel for products of MultiplyWgmma with up to
// 64 rows and quantised weights (mat_mul_few.cu). It returns false, and does
// nothing, if it cannot compute the products.
bool MultiplyFewRows(const Context& context,
                     std::span<const MatMulArgs> products);

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_PRODUCTS_CUH_
