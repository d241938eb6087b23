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

// A stage is the activations of a batch of rows for so many columns of tiles.
constexpr int kStageTiles = kSwizzleColumns / static_cast<int>(kTileCols);
constexpr int kStages = 6;
static_assert(kStageTiles == 2);

// The rows that a block of threads computes. With few rows a product is bound
// by reading weights.
constexpr int kManyRows = 128;
constexpr int kSomeRows = 64;
constexpr int kFewRows = 32;

constexpr int StageBytes(int batch_rows) {
  return batch_rows * kSwizzleRowBytes;
}
constexpr int64_t SharedBytes(int batch_rows) {
  return int64_t{kStages} *
         (StageBytes(batch_rows) + 2 * int64_t{sizeof(Barrier)});
}
static_assert(SharedBytes(kManyRows) <= kMaxSharedBytes);

// ---- Activations -----------------------------------------------------------

// Rounded activations, stage after stage of a batch of rows. Of 16 columns, the
// even ones come first, as HalfTile has them. The rows' scales come last.
struct StagedRows {
  std::byte* values;
  float* scales;  // powers of two
  int32_t n_stages;
  int32_t batch_rows;

  __host__ __device__ std::byte* Stage(int64_t batch, int64_t stage) const {
    return values + (batch * n_stages + stage) * StageBytes(batch_rows);
  }
};

constexpr int64_t BatchesOf(int64_t n_rows, int64_t batch_rows) {
  return (n_rows + batch_rows - 1) / batch_rows;
}
// The bytes that a row takes, with its scale.
constexpr int64_t RowBytesOf(int64_t cols) {
  return cols * 2 + int64_t{sizeof(float)};
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
    std::byte* stage = out.Stage(row / out.batch_rows, at / 4);
    const auto store = [&](int chunk, const uint32_t* words) {
      *reinterpret_cast<uint4*>(
          stage + SwizzledByte(row % out.batch_rows, at % 4 * 2 + chunk)) = {
          words[0], words[1], words[2], words[3]};
    };
    store(0, even);
    store(1, odd);
  }
}

// ---- Products --------------------------------------------------------------

// The stages in a block's shared memory. Barrier `full` of a stage tells that
// its bytes have come, barrier `empty` that all warps have used them.
template <int kRows>
struct Stages {
  static constexpr int kBytes = StageBytes(kRows);
  std::byte* at;
  Barrier* full;
  Barrier* empty;

  __device__ explicit Stages(std::byte* shared)
      : at(shared),
        full(reinterpret_cast<Barrier*>(shared + kStages * kBytes)),
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
  __device__ void Copy(int stage, const std::byte* from) const {
    const int slot = stage % kStages;
    ArriveForBytes(full + slot, kBytes);
    CopyBlock(at + slot * kBytes, from, kBytes, full + slot);
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
    return WgmmaDescriptor(SharedAddress(at + stage % kStages * kBytes), step);
  }
};

// Blocks of threads may share outputs: each has some of the columns. They leave
// their sums in `sums`, and the last one to come adds them all up, in the order
// of the columns.
struct Parts {
  float* sums;      // [blocks of one part, n_parts, sums of a thread, threads]
  int32_t* counts;  // [blocks of one part], zeros
  int32_t n_parts;
};

// Returns true in the block that comes last; its `mine` gets all sums.
template <int kN>
__device__ bool AddParts(const Parts& parts, int64_t block, int part,
                         float (&mine)[kN]) {
  float* all = parts.sums + block * parts.n_parts * (kN * kProductThreads) +
               ThreadIndex();
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    all[(part * kN + i) * kProductThreads] = mine[i];
  }
  // All stages have been used.
  auto* const word = reinterpret_cast<int32_t*>(DynamicShared());
  if (!IsLastToArrive(parts.counts + block, parts.n_parts, word)) return false;
#pragma unroll
  for (int i = 0; i < kN; ++i) mine[i] = 0;
  for (int p = 0; p < parts.n_parts; ++p) {
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      mine[i] += LoadWritten(all + (p * kN + i) * kProductThreads);
    }
  }
  return true;
}

// Computes kRows rows in a block of threads. A warp takes kTiles neighbouring
// tiles of outputs, whose weights it loads kAhead stages before it uses them.
template <DType kType, int kTiles, int kRows, int kAhead>
__global__ void __launch_bounds__(kProductThreads, kRows == kManyRows ? 1 : 2)
    MultiplyStages(const __grid_constant__ Products products, StagedRows x,
                   int32_t n_rows, bool accumulate, uint32_t n_batches,
                   Parts parts) {
  constexpr int kGroups = kRows / kGroupRows;
  constexpr int kSums = WgmmaSums(kRows);
  // With many rows there is one part.
  constexpr bool kHasParts = kRows != kManyRows;
  const uint32_t n_parts =
      kHasParts ? static_cast<uint32_t>(parts.n_parts) : 1;
  const int64_t part = blockIdx.x % n_parts;
  const int64_t block = blockIdx.x / n_parts;
  auto index = static_cast<int>(block / n_batches);
  const Product& product = FindProduct(products, index);
  const int64_t batch = block % n_batches;
  const int first_tile = (index * kProductWarps + WarpIndex()) * kTiles;
  int begin = 0;
  int n_stages = x.n_stages;
  if constexpr (kHasParts) {
    begin = static_cast<int>(part * x.n_stages / parts.n_parts);
    n_stages =
        static_cast<int>((part + 1) * x.n_stages / parts.n_parts) - begin;
  }
  using Reader = HalfReader<kType, kTiles>;
  Reader weights;
  weights.Begin(product.w, first_tile);
  typename Reader::Raw next[kAhead][kStageTiles][kTiles];
#pragma unroll
  for (int a = 0; a < kAhead; ++a) {
    if (a >= n_stages) break;
#pragma unroll
    for (int c = 0; c < kStageTiles; ++c) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        next[a][c][t] = weights.Load(t, (begin + a) * kStageTiles + c);
      }
    }
  }
  const Stages<kRows> stages(DynamicShared());
  if (ThreadIndex() == 0) stages.Init();
  WaitForKernelsBefore();
  __syncthreads();
  if (ThreadIndex() == 0) {
    for (int s = 0; s < kStages && s < n_stages; ++s) {
      stages.Copy(s, x.Stage(batch, begin + s));
    }
  }
  float sums[kTiles * kSums] = {};
  HalfTile tiles[kStageTiles][kTiles] = {};
  const auto multiply = [&](int ahead, int stage) {
    stages.AwaitFull(stage);
#pragma unroll
    for (int c = 0; c < kStageTiles; ++c) {
      const int col = (begin + stage) * kStageTiles + c;
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        tiles[c][t] = Reader::Round(next[ahead][c][t], col);
        if (stage + kAhead < n_stages) {
          next[ahead][c][t] = weights.Load(t, col + kAhead * kStageTiles);
        }
      }
      BeginProducts();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint64_t rows = stages.Descriptor(stage, c * 2 + half);
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          MultiplyGroup<kRows>(tiles[c][t].a[half], rows, sums + t * kSums);
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
      const int coming = stage - 2 + kStages;
      if (stage >= 2 && coming < n_stages && ThreadIndex() == 0) {
        stages.AwaitEmpty(stage - 2);
        stages.Copy(coming, x.Stage(batch, begin + coming));
      }
    }
  };
  for (int stage = 0; stage < n_stages; stage += kAhead) {
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (a == 0 || stage + a < n_stages) multiply(a, stage + a);
    }
  }
  AwaitProducts<0>();
  KeepSums(sums);
  if constexpr (kHasParts) {
    if (parts.n_parts > 1 &&
        !AddParts(parts, block, static_cast<int>(part), sums)) {
      return;
    }
  }
  const int first_row = static_cast<int>(batch) * kRows;
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

// The blocks of one part of `products`, in groups of `block_tiles` tiles.
int64_t BlocksOf(std::span<const MatMulArgs> products, int64_t block_tiles) {
  int64_t n_blocks = 0;
  ProductsOf(products, block_tiles, n_blocks);
  return n_blocks;
}

template <DType kType, int kTiles, int kRows, int kAhead>
void LaunchStages(const Context& context, std::span<const MatMulArgs> products,
                  const StagedRows& x, int64_t n_parts) {
  const MatMulArgs& first = products.front();
  int64_t n_groups = 0;
  const Products all = ProductsOf(products, kProductWarps * kTiles, n_groups);
  const int64_t n_batches = BatchesOf(first.n_rows, kRows);
  const Parts parts = {
      .sums = x.scales + n_batches * kRows,
      .counts = context.counts,
      .n_parts = static_cast<int32_t>(n_parts),
  };
  Launch(MultiplyStages<kType, kTiles, kRows, kAhead>,
         {n_groups * n_batches * n_parts}, kProductThreads, SharedBytes(kRows),
         context.queue, all, x, static_cast<int32_t>(first.n_rows),
         first.accumulate, static_cast<uint32_t>(n_batches), parts);
}

// Many rows. Uses blocks of 256 outputs, whose warps read activations half as
// often as with 128, unless smaller blocks leave fewer multiprocessors without
// work at the end. From four batches of rows on, only the matrices decide, so
// that long steps have the same kernels.
template <DType kType>
void MultiplyMany(const Context& context, std::span<const MatMulArgs> products,
                  const StagedRows& x) {
  const int64_t n_batches =
      std::min<int64_t>(BatchesOf(products.front().n_rows, kManyRows), 4);
  const auto rounds_of = [&](int64_t block_tiles) {
    const int64_t n = context.n_multiprocessors;
    return (BlocksOf(products, block_tiles) * n_batches + n - 1) / n;
  };
  if (2 * rounds_of(2 * kProductWarps) <= rounds_of(kProductWarps)) {
    LaunchStages<kType, 2, kManyRows, 1>(context, products, x, 1);
  } else {
    LaunchStages<kType, 1, kManyRows, 1>(context, products, x, 1);
  }
}

// Few rows: blocks share outputs until there are some three for each
// multiprocessor. Only the matrices decide how many do.
template <DType kType, int kRows>
void MultiplyFew(const Context& context, std::span<const MatMulArgs> products,
                 const StagedRows& x) {
  constexpr int64_t kFewestStages = 8;  // of a part
  constexpr int64_t kMostParts = 16;
  constexpr int64_t kSumBytes =
      2 * WgmmaSums(kRows) * kProductThreads * int64_t{sizeof(float)};
  const int64_t n_blocks = BlocksOf(products, 2 * kProductWarps);
  const int64_t n_batches = BatchesOf(products.front().n_rows, kRows);
  const int64_t wanted = 3 * context.n_multiprocessors / n_blocks;
  const int64_t left =
      kScratchBytes - n_batches * kRows * RowBytesOf(products.front().w.cols);
  const int64_t that_fit = left / (n_blocks * n_batches * kSumBytes);
  int64_t n_parts =
      std::min({wanted, that_fit, kMostParts, x.n_stages / kFewestStages});
  if (n_parts < 1 || n_blocks * n_batches > kCounts) n_parts = 1;
  LaunchStages<kType, 2, kRows, 2>(context, products, x, n_parts);
}

int BatchRows(int64_t n_rows) {
  if (n_rows > kSomeRows) return kManyRows;
  return n_rows > kFewRows ? kSomeRows : kFewRows;
}

}  // namespace

bool HasWgmmaProduct(const WeightMatrix& w) {
  return HasHalfProduct(w.dtype) && w.cols % kSwizzleColumns == 0 &&
         kManyRows * RowBytesOf(w.cols) <= kScratchBytes;
}

int64_t WgmmaRowsThatFit(int64_t cols) {
  return kScratchBytes / (kManyRows * RowBytesOf(cols)) * kManyRows;
}

void MultiplyWgmma(const Context& context,
                   std::span<const MatMulArgs> products) {
  const MatMulArgs& first = products.front();
  const int batch_rows = BatchRows(first.n_rows);
  const int64_t n_batches = BatchesOf(first.n_rows, batch_rows);
  StagedRows x = {
      .values = context.scratch,
      .scales = nullptr,
      .n_stages = static_cast<int32_t>(first.w.cols / kSwizzleColumns),
      .batch_rows = batch_rows};
  x.scales = reinterpret_cast<float*>(x.Stage(n_batches, 0));
  Launch(RoundToStages, {n_batches * batch_rows}, kRoundThreads,
         kRoundSharedBytes, context.queue, Activations(first), x);
  WithType(first.w.dtype, [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    if constexpr (HasHalfProduct(kType)) {
      if (batch_rows == kManyRows) {
        MultiplyMany<kType>(context, products, x);
      } else if (batch_rows == kSomeRows) {
        MultiplyFew<kType, kSomeRows>(context, products, x);
      } else {
        MultiplyFew<kType, kFewRows>(context, products, x);
      }
    }
  });
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
