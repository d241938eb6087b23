// What the kernels of integer products share: their matrices, activations as a
// warp reads them, and the exact product of a tile.
#ifndef PLIMSOLL_KERNELS_CUDA_PRODUCTS_CUH_
#define PLIMSOLL_KERNELS_CUDA_PRODUCTS_CUH_

#include <span>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/tiles.cuh"
#include "kernels/packed_row.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

inline constexpr int kProductWarps = 8;
inline constexpr int kProductThreads = kProductWarps * kWarpThreads;
inline constexpr int kGroupRows = 8;       // activations of one product
inline constexpr size_t kMaxProducts = 4;  // of one launch
static_assert(kTileCols == kActivationBlock);

struct Activations {
  const std::byte* rows;
  int64_t n_rows;
  int64_t dim;
};

// Matrices of one type that meet the same activations in one launch.
struct Product {
  DeviceMatrix w;
  float* out;
  int64_t end;  // of its groups of row tiles, which follow the one's before
};
struct Products {
  Product of[kMaxProducts];
};

// What a lane needs of the activations of one product of a warp. Rows past the
// end repeat the last one; their outputs are not stored.
struct Group {
  const std::byte* values;     // of row g, at this lane's columns
  const std::byte* scales[2];  // of rows 2t and 2t + 1

  // Reads nothing.
  __device__ void Begin(const Activations& x, int64_t first_row) {
    const int64_t row_bytes = PackedRowBytes(x.dim);
    const int lane = LaneIndex();
    const auto at = [&](int64_t row) {
      return x.rows + (row < x.n_rows ? row : x.n_rows - 1) * row_bytes;
    };
    values = at(first_row + lane / 4) + lane % 4 * 8;
    for (int c = 0; c < 2; ++c) {
      scales[c] = at(first_row + lane % 4 * 2 + c) + PackedScalesOffset(x.dim);
    }
  }
};

__device__ inline float FloatAt(const std::byte* base, int64_t byte) {
  return *reinterpret_cast<const float*>(base + byte);
}

// The operands of one group for one tile of columns.
struct Operands {
  uint32_t high[2];
  uint32_t low[2];
  float scale[2];
  float sum[2];  // scale * sum of values

  template <bool kHasOffset>
  __device__ void Load(const Group& group, int64_t dim, int64_t col_tile) {
    for (int half = 0; half < 2; ++half) {
      const auto values = *reinterpret_cast<const uint2*>(
          group.values + col_tile * (kTileCols * 2) + half * 32);
      high[half] = HighBytes(values);
      low[half] = LowBytes(values);
    }
    for (int c = 0; c < 2; ++c) {
      scale[c] = FloatAt(group.scales[c], col_tile * 4);
      if constexpr (kHasOffset) {
        sum[c] = FloatAt(
            group.scales[c],
            PackedSumsOffset(dim) - PackedScalesOffset(dim) + col_tile * 4);
      }
    }
  }
};

// sums += the exact product of a tile and a group. kIsSingle leaves out what
// is of no row if there is only one.
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
  for (int e = 0; e < 4; e += kIsSingle ? 2 : 1) {
    const int row = e / 2;
    const int column = e % 2;
    const auto total = [&](int h) {
      return static_cast<float>(high[h][e] * 256 + low[h][e]);
    };
    if constexpr (kHalves == 2) {
      const float sum =
          Fma(total(1), w.scale[row][1], total(0) * w.scale[row][0]);
      sums[e] = Fma(sum, x.scale[column], sums[e]);
    } else {
      sums[e] = Fma(total(0), w.scale[row][0] * x.scale[column], sums[e]);
    }
    if constexpr (!kIsSigned) {
      sums[e] = Fma(w.offset[row], x.sum[column], sums[e]);
    }
  }
}

// One launch of `products`, alike and kMaxProducts at most, each cut into
// groups of `group_tiles` tiles of outputs; `n_groups` is the number of those.
inline Products ProductsOf(std::span<const MatMulArgs> products,
                           int64_t group_tiles, int64_t& n_groups) {
  Products all = {};
  n_groups = 0;
  for (size_t i = 0; i < products.size(); ++i) {
    const DeviceMatrix w = MatrixOf(products[i].w);
    n_groups += (w.at.row_tiles + group_tiles - 1) / group_tiles;
    all.of[i] = {w, products[i].out, n_groups};
  }
  return all;
}

// The product that group `index` is of; `index` becomes the group in it.
__device__ inline Product FindProduct(const Products& products,
                                      int64_t& index) {
  int which = 0;
  while (index >= products.of[which].end) ++which;
  if (which > 0) index -= products.of[which - 1].end;
  return products.of[which];
}

// Stores a warp's sums of tiles from `first_tile` on for groups of rows from
// `first_row` on, or adds them; sums[(t * kGroups + g) * 4 ...] are tile t's
// and group g's, as the instruction spreads them over the lanes.
template <int kGroups, int kSums>
__device__ inline void StoreSums(const float (&sums)[kSums],
                                 const Product& product, int64_t first_tile,
                                 int64_t first_row, int64_t n_rows,
                                 bool accumulate) {
  const int64_t n_outputs = product.w.rows;
  const int lane = LaneIndex();
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const int64_t output =
        (first_tile + i / (4 * kGroups)) * kTileRows + lane / 4 + i % 4 / 2 * 8;
    const int64_t row =
        first_row + i / 4 % kGroups * kGroupRows + lane % 4 * 2 + i % 2;
    if (output >= n_outputs || row >= n_rows) continue;
    float& to = product.out[row * n_outputs + output];
    to = accumulate ? to + sums[i] : sums[i];
  }
}

// Products of many rows (mat_mul_prompt.cu). With `is_half`, activations are
// rounded to F16.
void MultiplyPrompt(const Context& context,
                    std::span<const MatMulArgs> products, bool is_half);

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_PRODUCTS_CUH_
