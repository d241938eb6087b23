// Products of many rows: a block of threads has 128 outputs for 128 rows, whose
// operands its warps share in the cache, so that reading them does not bound
// it.
//
// Exact: the operations of mat_mul.cu in the same order, so the same bits.
// There warp w has tiles w, w + 8, ... of the columns; here a warp goes through
// those classes one after another, in the order of the tree that adds them up,
// with at most three sums of classes put by.
//
// Half: activations, rounded to F16, meet quants, which F16 holds exactly, in
// one product instead of two. An activation loses up to 2^-12 of itself.
#include "kernels/cuda/matrix.cuh"
#include "kernels/cuda/products.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kTiles = 4;   // of outputs of a warp
constexpr int kGroups = 4;  // of rows of a warp
constexpr int kTileWarps = 2;
constexpr int kRowWarps = kProductWarps / kTileWarps;
constexpr int kBlockTiles = kTileWarps * kTiles;
constexpr int kBlockRows = kRowWarps * kGroups * kGroupRows;
constexpr int kSums = kTiles * kGroups * 4;
constexpr int kClasses = kProductWarps;
constexpr int kPending = 3;  // log2(kClasses) sums of classes
static_assert(kClasses == 1 << kPending);

// Of four bytes: two words of two values in F16.
template <bool kIsSigned>
__device__ void HalvesOfBytes(uint32_t bytes, uint32_t* pairs) {
#ifdef PLIMSOLL_CUDA_EMULATED
  for (int i = 0; i < 2; ++i) {
    pairs[i] = PackPair<false>(
        static_cast<float>(ByteAt<kIsSigned>(bytes, 2 * i)),
        static_cast<float>(ByteAt<kIsSigned>(bytes, 2 * i + 1)));
  }
#else
  // 0x6400 | b is 1024 + b.
  constexpr uint32_t kFlip = kIsSigned ? 0x80808080u : 0u;
  const __half2 zero = __float2half2_rn(kIsSigned ? 1152.0f : 1024.0f);
  for (int i = 0; i < 2; ++i) {
    const uint32_t biased =
        __byte_perm(bytes ^ kFlip, 0x64646464u, i == 0 ? 0x4140 : 0x4342);
    __half2 values;
    memcpy(&values, &biased, sizeof(values));
    values = __hsub2(values, zero);
    memcpy(&pairs[i], &values, sizeof(values));
  }
#endif
}

// A tile's quants in F16: of each half of its columns the operand of a product.
template <DType kType>
struct HalfTile {
  uint32_t a[2][4];

  __device__ explicit HalfTile(const Tile<kType>& tile) {
    for (int half = 0; half < 2; ++half) {
      for (int row = 0; row < 2; ++row) {
        uint32_t pairs[2];
        HalvesOfBytes<HasSignedQuants(kType)>(tile.a[2 * half + row], pairs);
        a[half][row] = pairs[0];
        a[half][2 + row] = pairs[1];
      }
    }
  }
};

// The activations of one group for one tile of columns.
struct HalfOperands {
  uint32_t b[2][2];
  float scale[2];
  float sum[2];

  template <bool kHasOffset>
  __device__ void Load(const ActivationReader<kGroups>& x, int group,
                       int step) {
    for (int half = 0; half < 2; ++half) {
      const uint2 values = x.Values(group, step, half);
      for (int i = 0; i < 2; ++i) {
        const uint32_t pair = i == 0 ? values.x : values.y;
        b[half][i] = PackPair<false>(
            static_cast<float>(static_cast<int16_t>(LowHalf(pair))),
            static_cast<float>(static_cast<int16_t>(HighHalf(pair))));
      }
    }
    for (int c = 0; c < 2; ++c) {
      scale[c] = x.Scale(group, step, c);
      if constexpr (kHasOffset) sum[c] = x.Sum(group, step, c);
    }
  }
};

template <DType kType>
__device__ void AccumulateHalf(const Tile<kType>& w, const HalfTile<kType>& q,
                               const HalfOperands& x, float* sums) {
  constexpr int kHalves = HalvesOf(kType);
  float products[kHalves][4] = {};
  for (int half = 0; half < 2; ++half) {
    MmaFloat<false>(q.a[half], x.b[half], products[half % kHalves]);
  }
  for (int e = 0; e < 4; ++e) {
    const int row = e / 2;
    const int column = e % 2;
    if constexpr (kHalves == 2) {
      const float sum = Fma(products[1][e], w.scale[row][1],
                            products[0][e] * w.scale[row][0]);
      sums[e] = Fma(sum, x.scale[column], sums[e]);
    } else {
      sums[e] = Fma(products[0][e], w.scale[row][0] * x.scale[column], sums[e]);
    }
    if constexpr (!HasSignedQuants(kType)) {
      sums[e] = Fma(w.offset[row], x.sum[column], sums[e]);
    }
  }
}

// sums += the products of a column of tiles and all groups.
template <DType kType, bool kIsHalf>
__device__ void AccumulateColumn(const Tile<kType>* tiles,
                                 const ActivationReader<kGroups>& x, int step,
                                 float* sums) {
  constexpr bool kHasOffset = !HasSignedQuants(kType);
  HalfOperands halves[kIsHalf ? kGroups : 1];
  if constexpr (kIsHalf) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      halves[g].template Load<kHasOffset>(x, g, step);
    }
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const HalfTile<kType> quants(tiles[t]);
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        AccumulateHalf<kType>(tiles[t], quants, halves[g],
                              sums + (t * kGroups + g) * 4);
      }
    }
  } else {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      Operands operands;
      operands.Load<kHasOffset>(x, g, step);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        Accumulate<kType, false>(tiles[t], operands,
                                 sums + (t * kGroups + g) * 4);
      }
    }
  }
}

// Class i in the order of the tree: 0, 4, 2, 6, 1, 5, 3, 7.
__device__ inline int ClassAt(int i) {
  return (i & 1) * 4 + (i & 2) + (i & 4) / 4;
}

// Columns of tiles that a warp has on their way: what registers are left for.
constexpr int Depth(DType type) {
  return type == DType::kQ4_0 || type == DType::kQ4_1 ? 2 : 1;
}

template <DType kType, bool kIsHalf>
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
  int depth = 0;
  for (int i = 0; i < kClasses; ++i) {
#pragma unroll
    for (float& sum : sums) sum = 0;
    __syncthreads();  // warps stay close, for what they share in the cache
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
        AccumulateColumn<kType, kIsHalf>(tiles, rows, d, sums);
      }
      rows.Advance(kDepth);
      weights.Advance(kDepth);
    }
    for (int bits = i; (bits & 1) != 0; bits /= 2) {
      --depth;
#pragma unroll
      for (int s = 0; s < kSums; ++s) sums[s] = pending[depth][s] + sums[s];
    }
    if (i + 1 == kClasses) break;
#pragma unroll
    for (int s = 0; s < kSums; ++s) pending[depth][s] = sums[s];
    ++depth;
  }
  StoreSums<kGroups>(sums, product, first_tile, first_row, x.n_rows,
                     accumulate);
}

template <DType kType>
void LaunchBlocks(const Context& context, std::span<const MatMulArgs> products,
                  bool is_half) {
  const MatMulArgs& first = products.front();
  int64_t n_groups = 0;
  const Products all = ProductsOf(products, kBlockTiles, n_groups);
  const int64_t n_batches = (first.n_rows + kBlockRows - 1) / kBlockRows;
  const Activations x(first);
  Launch(is_half ? MultiplyBlocks<kType, true> : MultiplyBlocks<kType, false>,
         {n_groups * n_batches}, kProductThreads, 0, context.queue, all, x,
         first.accumulate, static_cast<uint32_t>(n_batches));
}

}  // namespace

void MultiplyPrompt(const Context& context,
                    std::span<const MatMulArgs> products, bool is_half) {
  WithType(products.front().w.dtype, [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    if constexpr (IsTiled(kType)) {
      LaunchBlocks<kType>(context, products, is_half);
    }
  });
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
