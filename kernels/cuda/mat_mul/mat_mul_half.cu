// Products of many rows in F16. Weights and activations are rounded (2^-12 of
// each), and their products are added up in float32, over the columns in order.
// So a row has the same bits in any batch that this kernel computes.
//
// Activations are rounded once for all outputs. Each row is multiplied by a
// power of two that keeps it in F16's range, and is stored in the order in
// which the lanes read it. The warps that multiply weights also round them; a
// block has many rows, so that this pays.
#include <algorithm>
#include <vector>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/mat_mul/half_products.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kBlockRows = 128;
constexpr int kBlockGroups = kBlockRows / kGroupRows;
constexpr int kTiles = 2;  // tiles of outputs of a warp

// ---- Activations -----------------------------------------------------------

// Rounded activations, kBlockRows rows at a time. For each column of tiles
// there are the rows' groups, and in a group's kGroupBytes the lanes' operands
// of two products. Lane 4g + t has, of row g, columns 4t .. 4t + 3 and the four
// columns 16 further, in pairs of every other column as HalfTile has them. The
// rows' scales come last.
constexpr int kLaneBytes = 16;
constexpr int kGroupBytes = kWarpThreads * kLaneBytes;
constexpr int kColumnBytes = kBlockGroups * kGroupBytes;

struct HalfRows {
  std::byte* values;
  float* scales;  // powers of two
  int32_t col_tiles;

  __host__ __device__ std::byte* Column(int64_t batch, int64_t col_tile) const {
    return values + (batch * col_tiles + col_tile) * kColumnBytes;
  }
};

constexpr int64_t BatchesOf(int64_t n_rows) {
  return (n_rows + kBlockRows - 1) / kBlockRows;
}
constexpr int64_t BatchBytes(int64_t col_tiles) {
  return col_tiles * kColumnBytes + kBlockRows * int64_t{sizeof(float)};
}

// Rounds one row in each block of threads. Rows beyond the end become zeros.
__global__ void RoundActivations(Activations x, HalfRows out) {
  WaitForKernelsBefore();
  const auto row = static_cast<int>(blockIdx.x);
  const RoundedRow rounded(x, row);
  if (ThreadIndex() == 0) out.scales[row] = rounded.power;
  const int place = ThreadIndex() % 4;
  const int lane = row % kGroupRows * 4 + place;
  const int group = row % kBlockRows / kGroupRows;
  for (int tile = ThreadIndex() / 4; tile < out.col_tiles;
       tile += kRoundThreads / 4) {
    const float scale = rounded.Scale(tile);
    uint32_t pairs[4];
    for (int half = 0; half < 2; ++half) {
      const uint2 four = rounded.Four(tile, half * 4 + place);
      pairs[2 * half] = rounded.Even(four, scale);
      pairs[2 * half + 1] = rounded.Odd(four, scale);
    }
    *reinterpret_cast<uint4*>(out.Column(row / kBlockRows, tile) +
                              group * kGroupBytes + lane * kLaneBytes) = {
        pairs[0], pairs[1], pairs[2], pairs[3]};
  }
}

// ---- Products --------------------------------------------------------------

// Columns of tiles of activations that are copied together as a stage, and the
// number of stages.
constexpr int kStageTiles = 2;
constexpr int kStages = 3;
constexpr int64_t kSharedBytes = int64_t{kStages} * kStageTiles * kColumnBytes;
static_assert(kSharedBytes <= kMaxSharedBytes);

// Copies columns of tiles from `first` on to a stage, as one group.
__device__ inline void CopyStage(const HalfRows& x, int64_t batch, int first,
                                 std::byte* stage) {
  const int left = x.col_tiles - first;
  const int n_tiles = left < kStageTiles ? left : kStageTiles;
  const std::byte* from = x.Column(batch, first);
  for (int at = ThreadIndex() * kCopyBytes; at < n_tiles * kColumnBytes;
       at += kProductThreads * kCopyBytes) {
    StartCopy(stage + at, from + at);
  }
  CommitCopies();
}

// Tiles of outputs of a block of threads whose warps cut the rows into
// `n_row_warps` parts.
constexpr int BlockTiles(int n_row_warps) {
  return kProductWarps / n_row_warps * kTiles;
}

// sums += the products of a warp's tiles of one column with its groups of rows.
// `groups` has this lane's operands, kGroupBytes apart.
template <int kGroups>
__device__ void MultiplyColumn(const HalfTile (&tiles)[kTiles],
                               const std::byte* groups, float* sums) {
  // Groups are taken in twos, so that products with the same sums are apart.
#pragma unroll
  for (int g = 0; g < kGroups; g += 2) {
    uint4 rows[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      rows[i] = *reinterpret_cast<const uint4*>(groups + (g + i) * kGroupBytes);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t b[2] = {half == 0 ? rows[i].x : rows[i].z,
                               half == 0 ? rows[i].y : rows[i].w};
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          MmaFloat<false>(tiles[t].a[half], b,
                          sums + (t * kGroups + g + i) * 4);
        }
      }
    }
  }
}

// Computes kBlockRows rows in a block of threads. A warp takes kTiles tiles of
// outputs for one of kRowWarps parts of the rows.
template <DType kType, int kRowWarps>
__global__ void __launch_bounds__(kProductThreads, 1)
    MultiplyHalves(const __grid_constant__ Products products, HalfRows x,
                   int32_t n_rows, bool accumulate, uint32_t n_batches) {
  constexpr int kGroups = kBlockGroups / kRowWarps;
  constexpr int kSums = kTiles * kGroups * 4;
  auto index = static_cast<int>(blockIdx.x / n_batches);
  const Product& product = FindProduct(products, index);
  const int64_t batch = blockIdx.x % n_batches;
  const int first_group = WarpIndex() % kRowWarps * kGroups;
  const int first_row =
      static_cast<int>(batch) * kBlockRows + first_group * kGroupRows;
  const int first_tile =
      index * BlockTiles(kRowWarps) + WarpIndex() / kRowWarps * kTiles;
  using Reader = HalfReader<kType, kTiles>;
  Reader weights;
  weights.Begin(product.w, first_tile);
  typename Reader::Raw next[kTiles];
#pragma unroll
  for (int t = 0; t < kTiles; ++t) next[t] = weights.Load(t, 0);
  WaitForKernelsBefore();
  float sums[kSums] = {};
  const auto stage_at = [](int stage) {
    return DynamicShared() + stage % kStages * (kStageTiles * kColumnBytes);
  };
#pragma unroll
  for (int s = 0; s + 1 < kStages; ++s) {
    CopyStage(x, batch, s * kStageTiles, stage_at(s));
  }
  const bool has_work =
      first_row < n_rows && first_tile < product.w.at.row_tiles;
  for (int stage = 0; stage * kStageTiles < x.col_tiles; ++stage) {
    WaitForCopies<kStages - 2>();
    // After this, the stage has arrived, and nobody reads the one before.
    __syncthreads();
    CopyStage(x, batch, (stage + kStages - 1) * kStageTiles,
              stage_at(stage + kStages - 1));
    if (!has_work) continue;
#pragma unroll
    for (int c = 0; c < kStageTiles; ++c) {
      const int col = stage * kStageTiles + c;
      if (col >= x.col_tiles) break;
      HalfTile tiles[kTiles] = {};
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        tiles[t] = Reader::Round(next[t], col);
        if (col + 1 < x.col_tiles) next[t] = weights.Load(t, col + 1);
      }
      const std::byte* groups =
          stage_at(stage) + (c * kColumnBytes + first_group * kGroupBytes +
                             LaneIndex() * kLaneBytes);
      MultiplyColumn<kGroups>(tiles, groups, sums);
    }
  }
  WaitForCopies<0>();
  if (!has_work) return;
  ScaleSums<kGroups>(x.scales, first_row, sums);
  StoreSums<kGroups>(sums, product,
                     {first_tile, first_row, n_rows, accumulate});
}

template <DType kType, int kRowWarps>
void LaunchHalves(const Context& context, std::span<const MatMulArgs> products,
                  const HalfRows& x) {
  const MatMulArgs& first = products.front();
  int64_t n_groups = 0;
  const Products all = ProductsOf(products, BlockTiles(kRowWarps), n_groups);
  const int64_t n_batches = BatchesOf(first.n_rows);
  Launch(MultiplyHalves<kType, kRowWarps>, {n_groups * n_batches},
         kProductThreads, kSharedBytes, context.queue, all, x,
         static_cast<int32_t>(first.n_rows), first.accumulate,
         static_cast<uint32_t>(n_batches));
}

// Uses blocks of 256 outputs, whose warps round weights for all rows of a block
// and not for half of them, unless smaller blocks leave fewer multiprocessors
// without work at the end. From four batches of rows on, only the matrices
// decide, so that long steps have the same kernels.
template <DType kType>
void Multiply(const Context& context, std::span<const MatMulArgs> products,
              const HalfRows& x) {
  const int64_t n_batches =
      std::min<int64_t>(BatchesOf(products.front().n_rows), 4);
  const auto rounds_of = [&](int64_t block_tiles) {
    int64_t n_blocks = 0;
    ProductsOf(products, block_tiles, n_blocks);
    const int64_t n = context.n_multiprocessors;
    return (n_blocks * n_batches + n - 1) / n;
  };
  if (rounds_of(BlockTiles(2)) < 2 * rounds_of(BlockTiles(1))) {
    LaunchHalves<kType, 2>(context, products, x);
  } else {
    LaunchHalves<kType, 1>(context, products, x);
  }
}

// Multiplies rows in batches of as many as fit in the scratch memory.
void MultiplyRows(const Context& context,
                  std::span<const MatMulArgs> products) {
  const MatMulArgs& first = products.front();
  const int64_t n_batches = BatchesOf(first.n_rows);
  const auto col_tiles = static_cast<int32_t>(first.w.cols / kTileCols);
  HalfRows x = {
      .values = context.scratch, .scales = nullptr, .col_tiles = col_tiles};
  x.scales = reinterpret_cast<float*>(x.Column(n_batches, 0));
  Launch(RoundActivations, {n_batches * kBlockRows}, kRoundThreads,
         kRoundSharedBytes, context.queue, Activations(first), x);
  WithType(first.w.dtype, [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    if constexpr (HasHalfProduct(kType)) Multiply<kType>(context, products, x);
  });
}

}  // namespace

bool HasHalfProduct(const WeightMatrix& w) {
  return HasHalfProduct(w.dtype) && w.cols % kTileCols == 0 &&
         BatchBytes(w.cols / kTileCols) <= kScratchBytes;
}

void MultiplyHalf(const Context& context,
                  std::span<const MatMulArgs> products) {
  const int64_t n_rows = products.front().n_rows;
  const int64_t cols = products.front().w.cols;
  const bool is_wgmma =
      n_rows >= context.wgmma_rows && HasWgmmaProduct(products.front().w);
  if (is_wgmma && MultiplyFewRows(context, products)) return;
  const int64_t most =
      is_wgmma ? WgmmaRowsThatFit(context, products)
               : kScratchBytes / BatchBytes(cols / kTileCols) * kBlockRows;
  std::vector<MatMulArgs> some(products.begin(), products.end());
  for (int64_t row = 0; row < n_rows; row += most) {
    for (size_t i = 0; i < some.size(); ++i) {
      some[i].packed = products[i].packed + row * PackedRowBytes(cols);
      some[i].out = products[i].out + row * products[i].w.rows;
      some[i].n_rows = std::min(most, n_rows - row);
    }
    if (is_wgmma) {
      MultiplyWgmma(context, some);
    } else {
      MultiplyRows(context, some);
    }
  }
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
