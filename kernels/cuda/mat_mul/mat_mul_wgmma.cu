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

// A stage is the activations of a batch of rows for kStageTiles columns of
// tiles.
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

// Rounded activations, stage after stage of a batch of rows. The even ones of
// 16 columns come first, as HalfTile has them. The rows' scales come last.
struct StagedRows {
  std::byte* values;
  float* scales;  // powers of two
  int32_t n_stages;
  int32_t batch_rows;
  int32_t n_rows;
  uint32_t n_batches;

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

// Where a lane reads a warp's tiles of weights, stage after stage. It counts in
// columns of tiles, or walks with its pointers where tiles share no block: that
// takes fewer instructions.
template <DType kType, int kTiles>
struct StageReader {
  using Half = HalfReader<kType, kTiles>;
  using Raw = typename Half::Raw;
  Half tiles;
  int col;  // the stage's first column of tiles

  __device__ void Begin(const DeviceMatrix& w, int first_tile, int first_col) {
    tiles.Begin(w, first_tile);
    col = first_col;
  }
  // Loads the tile of row t, `n` columns after the stage's first.
  __device__ Raw Load(int t, int n) const { return tiles.Load(t, col + n); }
  __device__ HalfTile Round(const Raw& raw, int n) const {
    return Half::Round(raw, col + n);
  }
  __device__ void Advance() { col += kStageTiles; }
};
template <DType kType, int kTiles>
requires(IsTiled(kType) &&
         PlanesOf(kType).block_tiles == 1) struct StageReader<kType, kTiles> {
  using Raw = RawTile<kType>;
  TileReader<kType, 1> tiles[kTiles];

  __device__ void Begin(const DeviceMatrix& w, int first_tile, int first_col) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      tiles[t].Begin(w, first_tile + t, first_col);
    }
  }
  __device__ Raw Load(int t, int n) const {
    return tiles[t].LoadTile(0, static_cast<uint32_t>(n));
  }
  __device__ static HalfTile Round(const Raw& raw, int /*n*/) {
    return Rounded<kType>(Unpack(raw, 0));
  }
  __device__ void Advance() {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) tiles[t].AdvanceTiles(kStageTiles);
  }
};

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
  // Starts the copy of a stage to a place that is empty.
  __device__ void Copy(int slot, const std::byte* from) const {
    ArriveForBytes(full + slot, kBytes);
    CopyBlock(at + slot * kBytes, from, kBytes, full + slot);
  }
  __device__ uint64_t Descriptor(int slot, int step) const {
    return WgmmaDescriptor(SharedAddress(at + slot * kBytes), step);
  }
};

// Blocks of threads may share outputs: each has some of the columns. They leave
// their sums in `sums`, and the last one to come adds them all up, in the order
// of the columns.
struct Slices {
  float* sums;  // [blocks of one slice, n_slices, sums of a thread, threads]
  int32_t* counts;  // [blocks of one slice], zeros
  int32_t n_slices;
};

// Returns true in the block that comes last; its `mine` gets all sums.
template <int kN>
__device__ bool AddSlices(const Slices& slices, int64_t block, int slice,
                          float (&mine)[kN]) {
  float* all = slices.sums + block * slices.n_slices * (kN * kProductThreads) +
               ThreadIndex();
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    all[(slice * kN + i) * kProductThreads] = mine[i];
  }
  // All stages have been used.
  auto* const word = reinterpret_cast<int32_t*>(DynamicShared());
  if (!IsLastToArrive(slices.counts + block, slices.n_slices, word))
    return false;
#pragma unroll
  for (int i = 0; i < kN; ++i) mine[i] = 0;
  for (int p = 0; p < slices.n_slices; ++p) {
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      mine[i] += LoadWritten(all + (p * kN + i) * kProductThreads);
    }
  }
  return true;
}

// A block's stages of activations, in the order in which they are used.
template <int kRows>
struct StageRing {
  Stages<kRows> stages;
  const std::byte* from;  // the first stage
  int n_stages;
  // The place of the stage, and the parity of its barriers' phase.
  int slot = 0;
  int phase = 0;

  // Starts the copies of as many stages as have a place.
  __device__ __forceinline__ void CopyFirst() const {
    if (ThreadIndex() == 0) {
      for (int s = 0; s < kStages && s < n_stages; ++s) {
        stages.Copy(s, from + s * StageBytes(kRows));
      }
    }
  }
  // Gives back the place of the stage before `stage`, whose products have
  // ended. The place of the one before that gets a new stage: by now few warps
  // still use it.
  __device__ __forceinline__ void PassPlaces(int stage) const {
    if (stage > 0 && LaneIndex() == 0) {
      Arrive(stages.empty + (slot == 0 ? kStages : slot) - 1);
    }
    const int coming = stage - 2 + kStages;
    if (ThreadIndex() == 0 && stage >= 2 && coming < n_stages) {
      const bool is_same_round = slot >= 2;
      const int used = is_same_round ? slot - 2 : slot - 2 + kStages;
      WaitFor(stages.empty + used, is_same_round ? phase : phase ^ 1);
      stages.Copy(used, from + int64_t{coming} * StageBytes(kRows));
    }
  }
  __device__ __forceinline__ void Advance() {
    if (++slot == kStages) {
      slot = 0;
      phase ^= 1;
    }
  }
};

// The weights of a warp's kTiles neighbouring tiles of outputs, which are
// loaded kAhead stages before they are rounded to operands. It refers to its
// arrays: the compiler finds better code for arrays that do not lie in one
// object.
template <DType kType, int kTiles, int kAhead>
struct StageWeights {
  using Reader = StageReader<kType, kTiles>;
  using Raw = typename Reader::Raw;
  Reader& reader;
  Raw (&next)[kAhead][kStageTiles][kTiles];
  HalfTile (&tiles)[kStageTiles][kTiles];

  // Loads the weights of the first stages.
  __device__ __forceinline__ void LoadFirst(int n_stages) {
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (a >= n_stages) break;
#pragma unroll
      for (int c = 0; c < kStageTiles; ++c) {
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          next[a][c][t] = reader.Load(t, a * kStageTiles + c);
        }
      }
    }
  }
  // Rounds column `c` of the stage. With `loads`, the weights are loaded that
  // follow in its place.
  __device__ __forceinline__ void RoundColumn(int ahead, int c, bool loads) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      tiles[c][t] = reader.Round(next[ahead][c][t], c);
      if (loads) {
        next[ahead][c][t] = reader.Load(t, kAhead * kStageTiles + c);
      }
    }
  }
};

// Starts sums += the products of column `c` of the stage.
template <int kTiles, int kRows>
__device__ __forceinline__ void MultiplyColumn(
    const HalfTile (&tiles)[kTiles], const StageRing<kRows>& ring, int c,
    float (&sums)[kTiles * WgmmaSums(kRows)]) {
  BeginProducts();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint64_t rows = ring.stages.Descriptor(ring.slot, c * 2 + half);
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      MultiplyGroup<kRows>(tiles[t].a[half], rows, sums + t * WgmmaSums(kRows));
    }
  }
  CommitProducts();
}

// sums += the products of all stages.
template <DType kType, int kTiles, int kRows, int kAhead>
__device__ __forceinline__ void MultiplyAll(
    StageWeights<kType, kTiles, kAhead>& weights, StageRing<kRows>& ring,
    float (&sums)[kTiles * WgmmaSums(kRows)]) {
  const auto multiply = [&](int ahead, int stage) {
    WaitFor(ring.stages.full + ring.slot, ring.phase);
#pragma unroll
    for (int c = 0; c < kStageTiles; ++c) {
      weights.RoundColumn(ahead, c, stage + kAhead < ring.n_stages);
      MultiplyColumn<kTiles>(weights.tiles[c], ring, c, sums);
      // Now the tiles of the other column may change.
      AwaitProducts<1>();
      if (c == 0) ring.PassPlaces(stage);
    }
    weights.reader.Advance();
    ring.Advance();
  };
  for (int stage = 0; stage < ring.n_stages; stage += kAhead) {
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (a == 0 || stage + a < ring.n_stages) multiply(a, stage + a);
    }
  }
  AwaitProducts<0>();
  KeepSums(sums);
}

// Computes kRows rows in a block of threads. A warp takes kTiles neighbouring
// tiles of outputs.
template <DType kType, int kTiles, int kRows, int kAhead>
__global__ void __launch_bounds__(kProductThreads, kRows == kManyRows ? 1 : 2)
    MultiplyStages(const __grid_constant__ Products products, StagedRows x,
                   bool accumulate, Slices slices) {
  constexpr int kGroups = kRows / kGroupRows;
  const auto n_slices = static_cast<uint32_t>(slices.n_slices);
  const int64_t slice = blockIdx.x % n_slices;
  const int64_t block = blockIdx.x / n_slices;
  auto index = static_cast<int>(block / x.n_batches);
  const Product& product = FindProduct(products, index);
  const int64_t batch = block % x.n_batches;
  const int first_tile = (index * kProductWarps + WarpIndex()) * kTiles;
  const auto begin = static_cast<int>(slice * x.n_stages / slices.n_slices);
  const auto n_stages =
      static_cast<int>((slice + 1) * x.n_stages / slices.n_slices) - begin;
  using Weights = StageWeights<kType, kTiles, kAhead>;
  typename Weights::Reader reader;
  typename Weights::Raw next[kAhead][kStageTiles][kTiles];
  HalfTile tiles[kStageTiles][kTiles] = {};
  Weights weights = {reader, next, tiles};
  reader.Begin(product.w, first_tile, begin * kStageTiles);
  weights.LoadFirst(n_stages);
  const Stages<kRows> stages(DynamicShared());
  if (ThreadIndex() == 0) stages.Init();
  WaitForKernelsBefore();
  __syncthreads();
  StageRing<kRows> ring = {stages, x.Stage(batch, begin), n_stages};
  ring.CopyFirst();
  float sums[kTiles * WgmmaSums(kRows)] = {};
  MultiplyAll(weights, ring, sums);
  if (slices.n_slices > 1 &&
      !AddSlices(slices, block, static_cast<int>(slice), sums)) {
    return;
  }
  const int first_row = static_cast<int>(batch) * kRows;
  ScaleSums<kGroups>(x.scales, first_row, sums);
  if (first_tile >= product.w.at.row_tiles) return;
  StoreSums<kGroups>(sums, product,
                     {first_tile, first_row, x.n_rows, accumulate});
}

// The blocks of one slice of `products`, in groups of `block_tiles` tiles.
int64_t BlocksOf(std::span<const MatMulArgs> products, int64_t block_tiles) {
  int64_t n_blocks = 0;
  ProductsOf(products, block_tiles, n_blocks);
  return n_blocks;
}

template <DType kType, int kTiles, int kRows, int kAhead>
void LaunchStages(const Context& context, std::span<const MatMulArgs> products,
                  const StagedRows& x, int64_t n_slices) {
  int64_t n_groups = 0;
  const Products all = ProductsOf(products, kProductWarps * kTiles, n_groups);
  const int64_t n_batches = x.n_batches;
  const Slices slices = {
      .sums = x.scales + n_batches * kRows,
      .counts = context.counts,
      .n_slices = static_cast<int32_t>(n_slices),
  };
  Launch(MultiplyStages<kType, kTiles, kRows, kAhead>,
         {n_groups * n_batches * n_slices}, kProductThreads, SharedBytes(kRows),
         context.queue, all, x, products.front().accumulate, slices);
}

// The bytes of the sums that blocks leave for each other.
constexpr int64_t SliceBytes(int batch_rows) {
  return 2 * WgmmaSums(batch_rows) * kProductThreads * int64_t{sizeof(float)};
}

// The batches of rows of a step that products of many rows are made for.
constexpr int64_t kManyBatches = 4;

// How many blocks share outputs in products of many rows: more than one where
// blocks of 256 outputs are too few for the device. Only the matrices decide,
// so that a row's bits are the same in every step.
int64_t SlicesOfMany(const Context& context,
                     std::span<const MatMulArgs> products) {
  constexpr int64_t kMostSlices = 4;
  const int64_t n_blocks = BlocksOf(products, 2 * kProductWarps) * kManyBatches;
  const int64_t n_slices =
      std::min(context.n_multiprocessors / n_blocks, kMostSlices);
  const int64_t bytes =
      kManyBatches * kManyRows * RowBytesOf(products.front().w.cols) +
      n_blocks * n_slices * SliceBytes(kManyRows);
  return n_slices > 1 && bytes <= kScratchBytes ? n_slices : 1;
}

// Few rows: blocks share outputs until there are some three for each
// multiprocessor. Only the matrices decide how many do.
template <DType kType, int kRows>
void MultiplyFew(const Context& context, std::span<const MatMulArgs> products,
                 const StagedRows& x) {
  constexpr int64_t kFewestStages = 8;  // stages of a slice
  constexpr int64_t kMostSlices = 16;
  const int64_t n_blocks = BlocksOf(products, 2 * kProductWarps);
  const int64_t n_batches = x.n_batches;
  const int64_t wanted = 3 * context.n_multiprocessors / n_blocks;
  const int64_t left =
      kScratchBytes - n_batches * kRows * RowBytesOf(products.front().w.cols);
  const int64_t that_fit = left / (n_blocks * n_batches * SliceBytes(kRows));
  int64_t n_slices =
      std::min({wanted, that_fit, kMostSlices, x.n_stages / kFewestStages});
  if (n_slices < 1 || n_blocks * n_batches > kCounts) n_slices = 1;
  // Types of many planes, and floats, leave no registers for a second stage.
  constexpr bool kIsPlain = IsTiled(kType) && PlanesOf(kType).highs == 0 &&
                            PlanesOf(kType).subscales == 0;
  LaunchStages<kType, 2, kRows, kIsPlain ? 2 : 1>(context, products, x,
                                                  n_slices);
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

int64_t WgmmaRowsThatFit(const Context& context,
                         std::span<const MatMulArgs> products) {
  if (SlicesOfMany(context, products) > 1) return kManyBatches * kManyRows;
  return kScratchBytes / (kManyRows * RowBytesOf(products.front().w.cols)) *
         kManyRows;
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
      .batch_rows = batch_rows,
      .n_rows = static_cast<int32_t>(first.n_rows),
      .n_batches = static_cast<uint32_t>(n_batches)};
  x.scales = reinterpret_cast<float*>(x.Stage(n_batches, 0));
  Launch(RoundToStages, {n_batches * batch_rows}, kRoundThreads,
         kRoundSharedBytes, context.queue, Activations(first), x);
  WithType(first.w.dtype, [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    if constexpr (HasHalfProduct(kType)) {
      if (batch_rows == kManyRows) {
        LaunchStages<kType, 2, kManyRows, 1>(context, products, x,
                                             SlicesOfMany(context, products));
      } else if (batch_rows == kSomeRows) {
        MultiplyFew<kType, kSomeRows>(context, products, x);
      } else {
        MultiplyFew<kType, kFewRows>(context, products, x);
      }
    }
  });
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
