// Products of many rows in F16 with the instructions of a warpgroup, which only
// devices of compute capability 9.0 have. What is rounded, and the order of a
// sum's columns, are as in mat_mul_half.cu.
//
// Outputs are the rows of the instruction's operand in registers: a warp reads
// its tiles of weights and rounds them while the products before still run.
// Rows of activations are its operand in shared memory. They are rounded once,
// to the bytes that shared memory holds, so that a copy of a whole stage is one
// instruction.
#include <algorithm>
#include <vector>

#include "kernels/cuda/mat_mul/half_products.cuh"
#include "kernels/cuda/mat_mul/wgmma.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

// A stage is the activations of kWgmmaRows rows for so many columns of tiles.
constexpr int kStageTiles = kSwizzleColumns / static_cast<int>(kTileCols);
constexpr int kStageBytes = kWgmmaRows / kSwizzleRows * kSwizzleBytes;
constexpr int kStages = 6;
constexpr int64_t kSharedBytes =
    int64_t{kStages} * (kStageBytes + 2 * int64_t{sizeof(Barrier)});
static_assert(kSharedBytes <= kMaxSharedBytes);
static_assert(kStageTiles == 2);

// ---- Activations -----------------------------------------------------------

// Rounded activations, stage after stage of kWgmmaRows rows at a time. Of 16
// columns, the even ones come first, as HalfTile has them. The rows' scales
// come last.
struct StagedRows {
  std::byte* values;
  float* scales;  // powers of two
  int32_t n_stages;

  __host__ __device__ std::byte* Stage(int64_t batch, int64_t stage) const {
    return values + (batch * n_stages + stage) * kStageBytes;
  }
};

constexpr int64_t BatchesOf(int64_t n_rows) {
  return (n_rows + kWgmmaRows - 1) / kWgmmaRows;
}
constexpr int64_t BatchBytes(int64_t cols) {
  return cols / kSwizzleColumns * kStageBytes +
         kWgmmaRows * int64_t{sizeof(float)};
}

// Rounds one row in each block of threads. Rows beyond the end become zeros.
__global__ void RoundToStages(Activations x, StagedRows out) {
  WaitForKernelsBefore();
  const auto row = static_cast<int>(blockIdx.x);
  const RoundedRow rounded(x, row);
  if (ThreadIndex() == 0) out.scales[row] = rounded.power;
  // A thread rounds the 16 columns of one product.
  for (int at = ThreadIndex(); at < out.n_stages * 4; at += kRoundThreads) {
    const int tile = at / 2;
    const float scale = rounded.Scale(tile);
    uint32_t even[4];
    uint32_t odd[4];
    for (int i = 0; i < 4; ++i) {
      const uint2 four = rounded.Four(tile, at % 2 * 4 + i);
      even[i] = RoundedRow::Even(four, scale);
      odd[i] = RoundedRow::Odd(four, scale);
    }
    std::byte* stage = out.Stage(row / kWgmmaRows, at / 4);
    const auto store = [&](int chunk, const uint32_t* words) {
      *reinterpret_cast<uint4*>(
          stage + SwizzledByte(row % kWgmmaRows, at % 4 * 2 + chunk)) = {
          words[0], words[1], words[2], words[3]};
    };
    store(0, even);
    store(1, odd);
  }
}

// ---- Products --------------------------------------------------------------

// The stages in a block's shared memory. Barrier `full` of a stage tells that
// its bytes have come, barrier `empty` that all warps have used them.
struct Stages {
  std::byte* at;
  Barrier* full;
  Barrier* empty;

  __device__ explicit Stages(std::byte* shared)
      : at(shared),
        full(reinterpret_cast<Barrier*>(shared + kStages * kStageBytes)),
        empty(full + kStages) {}

  // Called by one thread, before any other uses the barriers.
  __device__ void Init() const {
    for (int i = 0; i < kStages; ++i) {
      InitBarrier(full + i, 1);
      InitBarrier(empty + i, kProductWarps);
    }
    PublishBarriers();
  }
  // Starts the copy of a stage. The caller knows that its place is empty.
  __device__ void Copy(const StagedRows& x, int64_t batch, int stage) const {
    const int slot = stage % kStages;
    ArriveForBytes(full + slot, kStageBytes);
    CopyBlock(at + slot * kStageBytes, x.Stage(batch, stage), kStageBytes,
              full + slot);
  }
  __device__ void AwaitFull(int stage) const {
    WaitFor(full + stage % kStages, stage / kStages % 2);
  }
  __device__ void AwaitEmpty(int stage) const {
    WaitFor(empty + stage % kStages, stage / kStages % 2);
  }
  __device__ void ArriveEmpty(int stage) const {
    Arrive(empty + stage % kStages);
  }
  __device__ uint64_t Descriptor(int stage, int step) const {
    return WgmmaDescriptor(SharedAddress(at + stage % kStages * kStageBytes),
                           step);
  }
};

// Computes kWgmmaRows rows in a block of threads. A warp takes kTiles
// neighbouring tiles of outputs.
template <DType kType, int kTiles>
__global__ void __launch_bounds__(kProductThreads, 1)
    MultiplyStages(const __grid_constant__ Products products, StagedRows x,
                   int32_t n_rows, bool accumulate, uint32_t n_batches) {
  constexpr int kGroups = kWgmmaRows / kGroupRows;
  auto index = static_cast<int>(blockIdx.x / n_batches);
  const Product& product = FindProduct(products, index);
  const int64_t batch = blockIdx.x % n_batches;
  const int first_tile = (index * kProductWarps + WarpIndex()) * kTiles;
  using Reader = HalfReader<kType, kTiles>;
  Reader weights;
  weights.Begin(product.w, first_tile);
  typename Reader::Raw next[kStageTiles][kTiles];
#pragma unroll
  for (int c = 0; c < kStageTiles; ++c) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) next[c][t] = weights.Load(t, c);
  }
  const Stages stages(DynamicShared());
  if (ThreadIndex() == 0) stages.Init();
  WaitForKernelsBefore();
  __syncthreads();
  if (ThreadIndex() == 0) {
    for (int s = 0; s < kStages && s < x.n_stages; ++s) {
      stages.Copy(x, batch, s);
    }
  }
  float sums[kTiles * kWgmmaSums] = {};
  HalfTile tiles[kStageTiles][kTiles] = {};
  for (int stage = 0; stage < x.n_stages; ++stage) {
    stages.AwaitFull(stage);
#pragma unroll
    for (int c = 0; c < kStageTiles; ++c) {
      const int col = stage * kStageTiles + c;
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        tiles[c][t] = Reader::Round(next[c][t], col);
        if (stage + 1 < x.n_stages) {
          next[c][t] = weights.Load(t, col + kStageTiles);
        }
      }
      BeginProducts();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint64_t rows = stages.Descriptor(stage, c * 2 + half);
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          MultiplyGroup(tiles[c][t].a[half], rows, sums + t * kWgmmaSums);
        }
      }
      CommitProducts();
      // Now the tiles of the other column may change.
      AwaitProducts<1>();
      if (c > 0) continue;
      // All products of the stage before have ended.
      if (stage > 0 && LaneIndex() == 0) stages.ArriveEmpty(stage - 1);
      // The place of the stage before that gets a new one: by now few warps
      // still use it.
      const int ahead = stage - 2 + kStages;
      if (stage >= 2 && ahead < x.n_stages && ThreadIndex() == 0) {
        stages.AwaitEmpty(stage - 2);
        stages.Copy(x, batch, ahead);
      }
    }
  }
  AwaitProducts<0>();
  KeepSums(sums);
  const int first_row = static_cast<int>(batch) * kWgmmaRows;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int row = first_row + g * kGroupRows + LaneIndex() % 4 * 2;
    const float scales[2] = {x.scales[row], x.scales[row + 1]};
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) {
      sums[(i / 4 * kGroups + g) * 4 + i % 4] *= scales[i % 2];
    }
  }
  if (first_tile >= product.w.at.row_tiles) return;
  StoreSums<kGroups>(sums, product, first_tile, first_row, n_rows, accumulate);
}

template <DType kType, int kTiles>
void LaunchStages(const Context& context, std::span<const MatMulArgs> products,
                  const StagedRows& x) {
  const MatMulArgs& first = products.front();
  int64_t n_groups = 0;
  const Products all = ProductsOf(products, kProductWarps * kTiles, n_groups);
  const int64_t n_batches = BatchesOf(first.n_rows);
  Launch(MultiplyStages<kType, kTiles>, {n_groups * n_batches}, kProductThreads,
         kSharedBytes, context.queue, all, x,
         static_cast<int32_t>(first.n_rows), first.accumulate,
         static_cast<uint32_t>(n_batches));
}

// Uses blocks of 256 outputs, whose warps read activations half as often as
// with 128, unless smaller blocks leave fewer multiprocessors without work at
// the end. From four batches of rows on, only the matrices decide, so that long
// steps have the same kernels.
template <DType kType>
void Multiply(const Context& context, std::span<const MatMulArgs> products,
              const StagedRows& x) {
  const int64_t n_batches =
      std::min<int64_t>(BatchesOf(products.front().n_rows), 4);
  const auto rounds_of = [&](int64_t block_tiles) {
    int64_t n_blocks = 0;
    ProductsOf(products, block_tiles, n_blocks);
    const int64_t n = context.n_multiprocessors;
    return (n_blocks * n_batches + n - 1) / n;
  };
  if (2 * rounds_of(2 * kProductWarps) <= rounds_of(kProductWarps)) {
    LaunchStages<kType, 2>(context, products, x);
  } else {
    LaunchStages<kType, 1>(context, products, x);
  }
}

}  // namespace

bool HasWgmmaProduct(const WeightMatrix& w) {
  return HasHalfProduct(w.dtype) && w.cols % kSwizzleColumns == 0 &&
         BatchBytes(w.cols) <= kScratchBytes;
}

int64_t WgmmaRowsThatFit(int64_t cols) {
  return kScratchBytes / BatchBytes(cols) * kWgmmaRows;
}

void MultiplyWgmma(const Context& context,
                   std::span<const MatMulArgs> products) {
  const MatMulArgs& first = products.front();
  const int64_t n_batches = BatchesOf(first.n_rows);
  StagedRows x = {
      .values = context.scratch,
      .scales = nullptr,
      .n_stages = static_cast<int32_t>(first.w.cols / kSwizzleColumns)};
  x.scales = reinterpret_cast<float*>(x.Stage(n_batches, 0));
  Launch(RoundToStages, {n_batches * kWgmmaRows}, kRoundThreads,
         kRoundSharedBytes, context.queue, Activations(first), x);
  WithType(first.w.dtype, [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    if constexpr (HasHalfProduct(kType)) Multiply<kType>(context, products, x);
  });
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
