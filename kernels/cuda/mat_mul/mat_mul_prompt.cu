// Products of many rows. A block of threads computes 128 outputs for 128 rows.
// Its warps share these operands in the cache, so that reading them is not the
// limit. The operations are those of mat_mul.cu in the same order, so the bits
// are the same.
//
// There, warp w has tiles w, w + 8, ... of the columns. Here, a warp goes
// through these classes of tiles one after another, in the order of the tree
// that adds them up, and keeps at most three sums of classes pending.
#include "kernels/cuda/mat_mul/products.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kTiles = 4;   // tiles of outputs of a warp
constexpr int kGroups = 4;  // groups of rows of a warp
constexpr int kTileWarps = 2;
constexpr int kRowWarps = kProductWarps / kTileWarps;
constexpr int kBlockTiles = kTileWarps * kTiles;
constexpr int kBlockRows = kRowWarps * kGroups * kGroupRows;
constexpr int kSums = kTiles * kGroups * 4;
constexpr int kClasses = kProductWarps;
constexpr int kPending = 3;  // log2(kClasses) sums of classes
static_assert(kClasses == 1 << kPending);

// sums += the products of a column of tiles with all groups.
template <DType kType>
__device__ void AccumulateColumn(const Tile<kType>* tiles,
                                 const ActivationReader<kGroups>& x, int step,
                                 float* sums) {
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    Operands operands;
    operands.Load<!HasSignedQuants(kType)>(x, g, step);
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      Accumulate<kType, false>(tiles[t], operands,
                               sums + (t * kGroups + g) * 4);
    }
  }
}

// Class i in the order of the tree: 0, 4, 2, 6, 1, 5, 3, 7.
__device__ inline int ClassAt(int i) {
  return (i & 1) * 4 + (i & 2) + (i & 4) / 4;
}

// Joins the sums of class i with those that are pending, as the tree does, and
// keeps the result pending, unless it is that of all classes.
__device__ __forceinline__ void JoinClass(int i,
                                          float (&pending)[kPending][kSums],
                                          int& n_pending,
                                          float (&sums)[kSums]) {
  for (int bits = i; (bits & 1) != 0; bits /= 2) {
    --n_pending;
#pragma unroll
    for (int s = 0; s < kSums; ++s) sums[s] = pending[n_pending][s] + sums[s];
  }
  if (i + 1 == kClasses) return;
#pragma unroll
  for (int s = 0; s < kSums; ++s) pending[n_pending][s] = sums[s];
  ++n_pending;
}

// Columns of tiles that a warp has loading; registers allow no more.
constexpr int Depth(DType type) {
  return type == DType::kQ4_0 || type == DType::kQ4_1 ? 2 : 1;
}

template <DType kType>
__global__ void __launch_bounds__(kProductThreads, 1)
    MultiplyBlocks(const __grid_constant__ Products products, Activations x,
                   bool accumulate, uint32_t n_batches) {
  WaitForKernelsBefore();
  constexpr int kScaleTiles = PlanesOf(kType).block_tiles;
  constexpr int kDepth = Depth(kType);
  auto index = static_cast<int>(blockIdx.x / n_batches);
  const Product& product = FindProduct(products, index);
  const DeviceMatrix& w = product.w;
  const int first_tile = index * kBlockTiles + WarpIndex() / kRowWarps * kTiles;
  const int first_row = static_cast<int>(blockIdx.x % n_batches) * kBlockRows +
                        WarpIndex() % kRowWarps * (kGroups * kGroupRows);
  float pending[kPending][kSums];  // in memory, for a moment each
  float sums[kSums];
  int n_pending = 0;
  for (int i = 0; i < kClasses; ++i) {
#pragma unroll
    for (float& sum : sums) sum = 0;
    __syncthreads();  // keeps warps close: they share the cache
    const int first_col = ClassAt(i);
    ActivationReader<kGroups> rows;
    rows.Begin(x, first_row, first_col);
    TileReader<kType, kTiles> weights;
    weights.Begin(w, first_tile, first_col);
    int left = (static_cast<int>(w.at.col_tiles) - first_col + kClasses - 1) /
               kClasses;
    RawTile<kType> next[kDepth][kTiles];
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      if (d >= left) break;
#pragma unroll
      for (int t = 0; t < kTiles; ++t) next[d][t] = weights.Load(t, d);
    }
    for (; left > 0; left -= kDepth) {
#pragma unroll
      for (int d = 0; d < kDepth; ++d) {
        if (d > 0 && d >= left) break;
        Tile<kType> tiles[kTiles];
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          tiles[t] = Unpack(next[d][t], first_col % kScaleTiles);
          if (d + kDepth < left) next[d][t] = weights.Load(t, d + kDepth);
        }
        AccumulateColumn<kType>(tiles, rows, d, sums);
      }
      rows.Advance(kDepth);
      weights.Advance(kDepth);
    }
    JoinClass(i, pending, n_pending, sums);
  }
  StoreSums<kGroups>(sums, product,
                     {first_tile, first_row, x.n_rows, accumulate});
}

template <DType kType>
void LaunchBlocks(const Context& context,
                  std::span<const MatMulArgs> products) {
  const MatMulArgs& first = products.front();
  int64_t n_groups = 0;
  const Products all = ProductsOf(products, kBlockTiles, n_groups);
  const int64_t n_batches = (first.n_rows + kBlockRows - 1) / kBlockRows;
  const Activations x(first);
  Launch(MultiplyBlocks<kType>, {n_groups * n_batches}, kProductThreads, 0,
         context.queue, all, x, first.accumulate,
         static_cast<uint32_t>(n_batches));
}

}  // namespace

void MultiplyPrompt(const Context& context,
                    std::span<const MatMulArgs> products) {
  WithType(products.front().w.dtype, [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    if constexpr (IsTiled(kType)) {
      LaunchBlocks<kType>(context, products);
    }
  });
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
