// Integer products of one row, whose weights go through shared memory
// (weight_stream.cuh). The operations and their order are those of mat_mul.cu,
// so the bits are the same.
//
// A block of threads takes rows of tiles of outputs, one after another. One
// warp starts the copies of weights, before the kernels before have ended. The
// other warps multiply and meet only now and then, to add up what they have.
#include <algorithm>

#include "kernels/cuda/mat_mul/weight_stream.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = kProductThreads + kWarpThreads;
constexpr int kBlocks = 2;  // of a multiprocessor
// Shared memory of a block. Two blocks fit.
constexpr int64_t kSharedBytes = int64_t{112} << 10;
// Rows of tiles whose sums the warps have before they add them up.
constexpr int kKept = 16;
constexpr int64_t kKeptBytes =
    int64_t{kKept} * kProductWarps * kTileRows * int64_t{sizeof(float)};
// For every column of tiles: what each of four lanes has of the activations,
// and their scale and scaled sum.
constexpr int64_t kColumnBytes = 4 * 16 + 8;
constexpr int64_t kFixedBytes =
    kKeptBytes + kSlotBarrierBytes + 2 * int64_t{sizeof(Barrier)};

int64_t ColumnsBytes(int64_t col_tiles) {
  return (col_tiles * kColumnBytes + 127) / 128 * 128;
}
int64_t SlotsThatFit(DType type, int64_t col_tiles) {
  const int64_t left = kSharedBytes - kFixedBytes - ColumnsBytes(col_tiles);
  return std::clamp<int64_t>(left / SlotOf(type).bytes, 0, kMostSlots);
}

// The block's shared memory.
struct Places {
  std::byte* slots;
  uint4* values;        // [col_tiles, 4]
  float2* scales;       // [col_tiles]: the scale and the scaled sum
  float* kept;          // [kKept, kProductWarps, kTileRows]
  std::byte* barriers;  // of the ring
  Barrier* meetings;    // [2] of the warps that multiply

  __device__ Places(std::byte* shared, int64_t slots_bytes, int col_tiles)
      : slots(shared),
        values(reinterpret_cast<uint4*>(shared + slots_bytes)),
        scales(reinterpret_cast<float2*>(values + col_tiles * 4)),
        kept(reinterpret_cast<float*>(shared + slots_bytes +
                                      (col_tiles * kColumnBytes + 127) / 128 *
                                          128)),
        barriers(reinterpret_cast<std::byte*>(kept) + kKeptBytes),
        meetings(reinterpret_cast<Barrier*>(barriers + kSlotBarrierBytes)) {}
};

// Splits the row's integers into high and low bytes, for all row tiles.
__device__ inline void SplitRow(const Activations& x, int col_tiles,
                                const Places& places) {
  for (int i = ThreadIndex(); i < col_tiles * 4; i += kThreads) {
    const int tile = i / 4;
    const std::byte* four =
        x.rows + (tile * static_cast<int>(kTileCols * 2) + i % 4 * 8);
    const auto first = *reinterpret_cast<const uint2*>(four);
    const auto second = *reinterpret_cast<const uint2*>(four + 32);
    places.values[i] = {HighBytes(first), HighBytes(second), LowBytes(first),
                        LowBytes(second)};
  }
  for (int i = ThreadIndex(); i < col_tiles; i += kThreads) {
    const std::byte* scale = x.rows + (x.scales + i * 4);
    places.scales[i] = {FloatAt(scale, 0), FloatAt(scale, x.to_sums)};
  }
}

// Adds up what the warps have of `n` rows of tiles, in the order of AddWarps,
// and stores it. Row i is row first + i * step of all products.
__device__ inline void StoreKept(const Products& products, const float* kept,
                                 int first, int step, int n, bool accumulate) {
  for (int i = ThreadIndex(); i < n * kTileRows; i += kProductThreads) {
    const float* of_warps =
        kept + i / kTileRows * (kProductWarps * kTileRows) + i % kTileRows;
    float sums[kProductWarps];
#pragma unroll
    for (int w = 0; w < kProductWarps; ++w) {
      sums[w] = of_warps[w * kTileRows];
    }
#pragma unroll
    for (int stride = kProductWarps / 2; stride > 0; stride /= 2) {
#pragma unroll
      for (int w = 0; w < stride; ++w) sums[w] += sums[w + stride];
    }
    int row_tile = first + i / static_cast<int>(kTileRows) * step;
    const Product& product = FindProduct(products, row_tile);
    const int64_t output = row_tile * kTileRows + i % kTileRows;
    if (output >= product.w.rows) continue;
    const float sum = sums[0] * product.w.Scale();
    float& to = product.out[output];
    to = accumulate ? to + sum : sum;
  }
}

template <DType kType>
__global__ void __launch_bounds__(kThreads, kBlocks)
    StreamTiles(const __grid_constant__ Products products, Activations x,
                bool accumulate, int32_t n_units, int32_t n_slots) {
  LetNextKernelBegin();
  const auto col_tiles = static_cast<int>(products.of[0].w.at.col_tiles);
  const Places places(DynamicShared(), n_slots * SlotOf(kType).bytes,
                      col_tiles);
  const WeightRing<kType> ring(places.slots, places.barriers, n_slots);
  const auto first_unit = static_cast<int>(blockIdx.x);
  const auto step = static_cast<int>(gridDim.x);
  const bool copies = ThreadIndex() == kProductThreads;
  SlotCursor at;
  int unit = first_unit;
  int first = 0;
  // Starts the next copy.
  const auto copy = [&] {
    int row_tile = unit;
    const Product& product = FindProduct(products, row_tile);
    const int left = col_tiles - first;
    ring.Copy(at.slot, product.w, row_tile, first,
              left < kSlotTiles ? left : kSlotTiles);
    at.Advance(n_slots);
    first += kSlotTiles;
    if (first < col_tiles) return;
    first = 0;
    unit += step;
  };
  if (copies) {
    ring.Init();
    InitBarrier(places.meetings, kProductThreads);
    InitBarrier(places.meetings + 1, kProductThreads);
    PublishBarriers();
    for (int i = 0; i < n_slots && unit < n_units; ++i) copy();
  }
  WaitForKernelsBefore();
  SplitRow(x, col_tiles, places);
  __syncthreads();
  if (WarpIndex() == kProductWarps) {
    while (copies && unit < n_units) {
      WaitFor(ring.empty + at.slot, at.phase ^ 1);
      copy();
    }
    return;
  }
  const int warp = WarpIndex();
  const int lane = LaneIndex();
  constexpr int kBlockTiles = PlanesOf(kType).block_tiles;
  int n_kept = 0;
  int meeting = 0;  // the parity of both
  const auto meet = [&](int which) {
    Arrive(places.meetings + which);
    WaitFor(places.meetings + which, meeting);
  };
  const auto store = [&](int last_unit) {
    meet(0);
    StoreKept(products, places.kept, last_unit - (n_kept - 1) * step, step,
              n_kept, accumulate);
    meet(1);
    meeting ^= 1;
    n_kept = 0;
  };
  for (; unit < n_units; unit += step) {
    float sums[4] = {};
    for (first = 0; first < col_tiles; first += kSlotTiles) {
      WaitFor(ring.full + at.slot, at.phase);
      const TileReader<kType, 1, true> weights = ring.Reader(at.slot, warp);
      const auto multiply = [&](int i) {
        const Tile<kType> tile = Unpack(weights.Load(0, i), warp % kBlockTiles);
        const int col = first + warp + i * kStepTiles;
        const uint4 values = places.values[col * 4 + lane % 4];
        const float2 scale = places.scales[col];
        const Operands operands = {{values.x, values.y},
                                   {values.z, values.w},
                                   {scale.x, scale.x},
                                   {scale.y, scale.y}};
        Accumulate<kType, true>(tile, operands, sums);
      };
      constexpr int kSteps = kSlotTiles / kStepTiles;
      if (first + kSlotTiles <= col_tiles) {
#pragma unroll
        for (int i = 0; i < kSteps; ++i) multiply(i);
      } else {
        for (int i = 0; first + warp + i * kStepTiles < col_tiles; ++i) {
          multiply(i);
        }
      }
      __syncwarp();
      if (lane == 0) Arrive(ring.empty + at.slot);
      at.Advance(n_slots);
    }
    if (lane % 4 == 0) {
      float* to =
          places.kept + (n_kept * kProductWarps + warp) * kTileRows + lane / 4;
      to[0] = sums[0];
      to[8] = sums[2];
    }
    if (++n_kept == kKept) store(unit);
  }
  if (n_kept > 0) store(unit - step);
}

}  // namespace

bool CanStream(const DeviceFacts& facts) {
  if (facts.shared_bytes < kSharedBytes) return false;
#ifdef PLIMSOLL_CUDA_EMULATED
  return true;
#else
  // Code for compute capability 8.0 has no such copies, wherever it runs.
  cudaFuncAttributes attributes = {};
  if (cudaFuncGetAttributes(&attributes, StreamTiles<DType::kQ8_0>) !=
      cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return attributes.ptxVersion >= 90;
#endif
}

bool HasStreamProduct(const WeightMatrix& w) {
  constexpr int64_t kFewestSlots = 3;
  return IsTiled(w.dtype) &&
         SlotsThatFit(w.dtype, w.cols / kTileCols) >= kFewestSlots;
}

void MultiplyStream(const Context& context,
                    std::span<const MatMulArgs> products) {
  const MatMulArgs& first = products.front();
  int64_t n_units = 0;
  const Products all = ProductsOf(products, 1, n_units);
  const int64_t col_tiles = first.w.cols / kTileCols;
  const int64_t n_slots = SlotsThatFit(first.w.dtype, col_tiles);
  const int64_t n_blocks =
      std::min(n_units, kBlocks * context.n_multiprocessors);
  const int64_t shared = n_slots * SlotOf(first.w.dtype).bytes +
                         ColumnsBytes(col_tiles) + kFixedBytes;
  WithType(first.w.dtype, [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    if constexpr (IsTiled(kType)) {
      Launch(StreamTiles<kType>, {n_blocks}, kThreads, shared, context.queue,
             all, Activations(first), first.accumulate,
             static_cast<int32_t>(n_units), static_cast<int32_t>(n_slots));
    }
  });
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
