// Integer products: tiles of quantised weights times packed activations on the
// tensor cores.
//
// An activation of 16 bits is 256 high + low, so two products of 8-bit integers
// give the exact sum over a block of 32 columns, whatever the weights' type.
// Between blocks every output sees the same float operations in the same
// order: warp w of a block of threads takes tiles w, w + 8, ... of the columns,
// and the warps' sums are added as a tree. So a row has the same bits alone and
// in any batch. Prompts have a kernel with another division of the work and the
// same operations (mat_mul_prompt.cu).
//
// Weights are prefetched before the earlier kernels have ended. That is safe:
// no kernel of a step writes weights, and an upload first starts what a step
// holds.
#include <algorithm>
#include <vector>

#include "kernels/cuda/mat_mul/products.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

// Blocks of threads that a multiprocessor must hold. It bounds a thread's
// registers: to 80, 128 and 255.
[[maybe_unused]] constexpr int MinBlocks(int n_products) {
  if (n_products == 1) return 3;
  return n_products <= 4 ? 2 : 1;
}

// A block of threads prefetches this much before it has its activations. The
// blocks that a device runs at a time prefetch some 15 MB, which fit in the L2
// cache.
constexpr int64_t kPrefetchBytes = int64_t{32} << 10;

// Asks for memory to be in the L2 cache when it is read. `data` and `bytes` are
// multiples of 16.
__device__ inline void Prefetch(const uint8_t* data, int64_t bytes) {
#ifdef PLIMSOLL_CUDA_EMULATED
  // These reads let address checkers see the range.
  [[maybe_unused]] volatile uint8_t last = data[0];
  last = data[bytes - 1];
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(
                   __cvta_generic_to_global(data)),
               "r"(static_cast<uint32_t>(bytes)));
#endif
}

// Prefetches tiles of columns from `first` on: as many as have `bytes` of
// quants, with their parts of the other planes.
template <DType kType>
__device__ void PrefetchTiles(const DeviceMatrix& w, int64_t row_tile,
                              int64_t first, int64_t bytes) {
  constexpr TilePlanes kPlanes = PlanesOf(kType);
  const int64_t left = w.at.col_tiles - first;
  const int64_t most = bytes / kPlanes.quants;
  const int64_t n_tiles = left < most ? left : most;
  if (n_tiles <= 0) return;
  const int64_t begin = w.at.Tile(row_tile, first);
  const auto ask = [&](int64_t plane, int64_t unit_bytes, int64_t unit_tiles) {
    const int64_t unit = begin / unit_tiles;
    const int64_t end = (begin + n_tiles + unit_tiles - 1) / unit_tiles;
    Prefetch(w.data + plane + unit * unit_bytes, (end - unit) * unit_bytes);
  };
  constexpr int64_t kQuantTiles = QuantTilesOf(kType);
  ask(0, kPlanes.quants * kQuantTiles, kQuantTiles);
  if constexpr (kPlanes.highs != 0) ask(w.at.highs, kPlanes.highs, 1);
  if constexpr (kPlanes.subscales != 0) {
    ask(w.at.subscales, kPlanes.subscales, kPlanes.block_tiles);
  }
  if constexpr (kPlanes.scales != 0) {
    ask(w.at.scales, kPlanes.scales, kPlanes.block_tiles);
  }
}

// A warp's way through its columns of tiles. Weights are loaded kDepth columns
// before they are multiplied. It refers to what holds arrays: the compiler
// finds better code for arrays that do not lie in one object.
template <DType kType, int kRowTiles, int kGroups, bool kIsSingle>
struct TileColumns {
  static constexpr int kDepth = Depth(kType, kRowTiles* kGroups);
  static constexpr int kBlockTiles = PlanesOf(kType).block_tiles;
  ActivationReader<kGroups>& rows;
  TileReader<kType, kRowTiles>& weights;
  RawTile<kType> (&next)[kDepth][kRowTiles];
  int left;  // columns of tiles, for this warp

  // sums += the products of the column `d` ahead. With `loads`, the weights
  // that follow in its place are loaded.
  __device__ __forceinline__ void Multiply(int d, bool loads, float* sums) {
    Tile<kType> tiles[kRowTiles];
    for (int t = 0; t < kRowTiles; ++t) {
      tiles[t] = Unpack(next[d][t], WarpIndex() % kBlockTiles);
      if (loads) next[d][t] = weights.Load(t, d + kDepth);
    }
    for (int g = 0; g < kGroups; ++g) {
      Operands operands;
      operands.Load<!HasSignedQuants(kType)>(rows, g, d);
      for (int t = 0; t < kRowTiles; ++t) {
        Accumulate<kType, kIsSingle>(tiles[t], operands,
                                     sums + (t * kGroups + g) * 4);
      }
    }
  }
  __device__ __forceinline__ void Advance() {
    rows.Advance(kDepth);
    weights.Advance(kDepth);
    left -= kDepth;
  }
  // sums += the products of all columns.
  __device__ __forceinline__ void MultiplyAll(float* sums) {
    // A loop without checks is a fifth shorter. With more products the checks
    // are a small part, and two loops take too many registers.
    while (kRowTiles * kGroups == 1 && left >= 2 * kDepth) {
#pragma unroll
      for (int d = 0; d < kDepth; ++d) Multiply(d, /*loads=*/true, sums);
      Advance();
    }
    while (left > 0) {
#pragma unroll
      for (int d = 0; d < kDepth; ++d) {
        if (d >= left) break;
        Multiply(d, d + kDepth < left, sums);
      }
      Advance();
    }
  }
};

// Computes, in a block of threads, kRowTiles tiles of outputs for kGroups
// groups of activations.
template <DType kType, int kRowTiles, int kGroups, bool kIsSingle>
__global__ void __launch_bounds__(kProductThreads,
                                  MinBlocks(kRowTiles* kGroups))
    MultiplyTiles(const __grid_constant__ Products products, Activations x,
                  bool accumulate, uint32_t n_batches, bool prefetches) {
  LetNextKernelBegin();
  constexpr int kSums = kRowTiles * kGroups * 4;
  using Columns = TileColumns<kType, kRowTiles, kGroups, kIsSingle>;
  auto index = static_cast<int>(blockIdx.x / n_batches);
  const Product& product = FindProduct(products, index);
  const DeviceMatrix& w = product.w;
  const int first_tile = index * kRowTiles;
  const auto first_row =
      static_cast<int>(blockIdx.x % n_batches) * (kGroups * kGroupRows);
  const int warp = WarpIndex();
  ActivationReader<kGroups> rows;
  rows.Begin(x, first_row, warp);
  TileReader<kType, kRowTiles> weights;
  weights.Begin(w, first_tile, warp);
  float sums[kSums] = {};
  if (prefetches && ThreadIndex() < kRowTiles &&
      first_tile + ThreadIndex() < w.at.row_tiles) {
    PrefetchTiles<kType>(w, first_tile + ThreadIndex(),
                         Columns::kDepth * kProductWarps,
                         kPrefetchBytes / kRowTiles);
  }
  RawTile<kType> next[Columns::kDepth][kRowTiles];
  Columns columns = {
      rows, weights, next,
      (static_cast<int>(w.at.col_tiles) - warp + kProductWarps - 1) /
          kProductWarps};
#pragma unroll
  for (int d = 0; d < Columns::kDepth; ++d) {
    if (d >= columns.left) break;
    for (int t = 0; t < kRowTiles; ++t) next[d][t] = weights.Load(t, d);
  }
  WaitForKernelsBefore();
  columns.MultiplyAll(sums);
  AddWarps<kSums>(sums, reinterpret_cast<float*>(DynamicShared()));
  if (WarpIndex() != 0) return;
  StoreSums<kGroups>(sums, product,
                     {first_tile, first_row, x.n_rows, accumulate});
}

template <DType kType, int kRowTiles, int kGroups, bool kIsSingle>
void LaunchMultiply(const Context& context,
                    std::span<const MatMulArgs> products) {
  constexpr int64_t kBatchRows = kGroups * kGroupRows;
  constexpr int64_t kShared =
      int64_t{kProductWarps} / 2 * kRowTiles * kGroups * 4 * kWarpThreads * 4;
  static_assert(kShared <= kMaxSharedBytes);
  const MatMulArgs& first = products.front();
  int64_t n_groups = 0;
  const Products all = ProductsOf(products, kRowTiles, n_groups);
  const int64_t n_batches = (first.n_rows + kBatchRows - 1) / kBatchRows;
  const Activations x(first);
  Launch(MultiplyTiles<kType, kRowTiles, kGroups, kIsSingle>,
         {n_groups * n_batches}, kProductThreads, kShared, context.queue, all,
         x, first.accumulate, static_cast<uint32_t>(n_batches),
         context.prefetches_weights);
}

// Rows of a block of threads whose warps share what they read.
constexpr int64_t kWideRows = 4 * kGroupRows;

// A product of few rows is bound by reading weights, so it gets many small
// blocks of threads. With more rows, blocks share what they read of both sides,
// if that leaves each multiprocessor a block.
template <DType kType>
void Multiply(const Context& context, std::span<const MatMulArgs> products) {
  const int64_t n_rows = products.front().n_rows;
  int64_t row_tiles = 0;
  for (const MatMulArgs& args : products) {
    row_tiles += (args.w.rows + kTileRows - 1) / kTileRows;
  }
  const int64_t wide_batches = (n_rows + kWideRows - 1) / kWideRows;
  if (n_rows <= kGroupRows && context.streams_weights &&
      HasStreamProduct(products.front().w)) {
    MultiplyStream(context, products);
  } else if (n_rows == 1) {
    LaunchMultiply<kType, 1, 1, true>(context, products);
  } else if (n_rows <= kGroupRows) {
    LaunchMultiply<kType, 1, 1, false>(context, products);
  } else if (row_tiles / 4 * wide_batches < context.n_multiprocessors) {
    LaunchMultiply<kType, 1, 4, false>(context, products);
  } else if (n_rows <= 2 * kGroupRows) {
    LaunchMultiply<kType, 2, 2, false>(context, products);
  } else {
    LaunchMultiply<kType, 4, 4, false>(context, products);
  }
}

// True if one launch can compute both products.
bool IsAlike(const MatMulArgs& a, const MatMulArgs& b) {
  return a.w.dtype == b.w.dtype && a.w.cols == b.w.cols &&
         a.packed == b.packed && a.n_rows == b.n_rows &&
         a.accumulate == b.accumulate;
}

bool IsEmpty(const MatMulArgs& args) {
  return args.n_rows == 0 || args.w.rows == 0;
}

// Takes the first product and those like it from `products`.
std::vector<MatMulArgs> TakeAlike(std::vector<MatMulArgs>& products) {
  std::vector<MatMulArgs> taken;
  const MatMulArgs first = products.front();
  std::erase_if(products, [&](const MatMulArgs& args) {
    if (taken.size() == kMaxProducts || !IsAlike(first, args)) return false;
    taken.push_back(args);
    return true;
  });
  return taken;
}

}  // namespace

std::vector<int64_t> StepRows(const Context& context) {
  // Beyond this, where prompts have no kernels of their own, the shape for few
  // matrices still changes.
  constexpr int64_t kMostRows = 256;
  std::vector<int64_t> rows = {1, kGroupRows, 2 * kGroupRows};
  const int64_t end = std::min(context.prompt_product_rows, kMostRows);
  for (int64_t n = kWideRows; n < end; n += kWideRows) rows.push_back(n);
  for (const int64_t begin : {context.prompt_product_rows,
                              context.half_product_rows, context.wgmma_rows}) {
    if (begin > 1 && begin <= kMostRows) rows.push_back(begin - 1);
  }
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

void MatMuls(const Context& context, std::span<const MatMulArgs> products) {
  const auto is_half = [&](const MatMulArgs& args) {
    return (args.n_rows >= context.half_product_rows &&
            HasHalfProduct(args.w)) ||
           (args.n_rows >= context.wgmma_rows && HasWgmmaProduct(args.w));
  };
  std::vector<MatMulArgs> left;
  for (const MatMulArgs& args : products) {
    if (IsEmpty(args)) continue;
    const bool is_packed = args.packed != nullptr;
    if (is_packed && (IsTiled(args.w.dtype) || is_half(args))) {
      left.push_back(args);
    } else {
      MatMulFloat(context, args);
    }
  }
  while (!left.empty()) {
    const std::vector<MatMulArgs> alike = TakeAlike(left);
    if (is_half(alike.front())) {
      MultiplyHalf(context, alike);
      continue;
    }
    if (alike.front().n_rows >= context.prompt_product_rows) {
      MultiplyPrompt(context, alike);
      continue;
    }
    WithType(alike.front().w.dtype, [&](auto type) {
      constexpr DType kType = decltype(type)::value;
      if constexpr (IsTiled(kType)) Multiply<kType>(context, alike);
    });
  }
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
