// A block of threads has 64 or 128 queries that read one KV head. It goes over
// their keys in tiles of 64: a page, or 64 aligned positions. A warp has 16 of
// the queries.
//
// Queries, keys, values and weights are rounded to F16, which keys and values
// of F16 already are; sums are float32. A query is first multiplied by a power
// of two that keeps it in F16's range.
//
// Operands lie in shared memory in the layout that a warpgroup's instructions
// require (wgmma_layout.h): swizzled blocks of 64 elements of all rows. Devices
// without these instructions read the same bytes with ldmatrix. Keys and values
// of F16 are copied there, others are converted on the way. While the products
// of a tile run, the keys of the next but one and the values of the next
// arrive.
//
// The weights of a tile are computed while the values of the tile before are
// multiplied.
//
// A row's result does not depend on the rows beside it, nor on where a chunk
// ends: a tile of which it sees nothing changes nothing. The tiles are dealt
// out to `n_slices` blocks in turn, and the last block to end merges the
// results of all in order, so the bits are those of one order of operations.
#include <algorithm>

#include "kernels/cuda/attention/attention_prompt_results.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

// ---- Tiles of a block ------------------------------------------------------

// Brings the keys, or the values, of found tiles to shared memory. A tile that
// is not there is left out.
template <class S, DType kType, bool kIsKeys>
class TileRows {
 public:
  __device__ __forceinline__ TileRows(const AttentionShape& shape, int kv_head)
      : shape_(shape),
        chunks_(kIsKeys ? shape.k_type : shape.v_type, kv_head * shape.head_dim,
                kIsKeys ? shape.head_dim : shape.value_dim,
                kIsKeys ? shape.k_row_bytes : shape.v_row_bytes) {}

  // Starts to bring tile i, goes on with it, and ends it, as a Bringer does.
  __device__ __forceinline__ void Start(int i) {
    Bring(i, [](auto& chunks, const auto&... to) { chunks.Start(to...); });
  }
  __device__ __forceinline__ void Continue(int i) {
    Bring(i, [](auto& chunks, const auto&... to) { chunks.Continue(to...); });
  }
  __device__ __forceinline__ void Finish(int i) {
    Bring(i, [](auto& chunks, const auto&... to) { chunks.Finish(to...); });
  }
  // Brings all of tile i, but does not wait for its copies.
  __device__ __forceinline__ void BringAll(int i) {
    Start(i);
    CommitCopies();
    Continue(i);
    Finish(i);
  }

 private:
  template <class Way>
  __device__ __forceinline__ void Bring(int i, const Way& way) {
    const KeyTile& tile = FoundTile<S>(i);
    if (!tile.is_there) return;
    const auto row = [&](int key) {
      return kIsKeys ? KeyRow(shape_, tile.step, key)
                     : ValueRow(shape_, tile.step, key);
    };
    way(chunks_, tile, kIsKeys ? tile.k : tile.v, row,
        kIsKeys ? KeysOf<S>(i) : ValuesOf<S>(i));
  }

  const AttentionShape& shape_;
  Bringer<S, kType> chunks_;
};

// Waits until all threads' copies and stores are there for all.
template <class S>
__device__ __forceinline__ void Publish() {
  WaitForCopies<0>();
  if constexpr (S::kUsesWgmma) PublishShared();
  __syncthreads();
}

// A thread's part of what a block computes: the softmax and the sums of its two
// queries, and the scores and weights of a tile.
template <class S>
struct PromptSums {
  const int query = WarpIndex() * 16 + LaneIndex() / 4;  // the first query
  PromptSoftmax state = {{MinusInfinity(), MinusInfinity()}, {0, 0}};
  float sums[S::kSums] = {};
  float scores[kScores] = {};
  uint32_t weights[kWeights] = {};
  float factors[2];  // what earlier sums are multiplied by
  float units[2];    // what the scores of the queries are multiplied by

  // Loads the powers of two of queries that have been staged.
  __device__ __forceinline__ void LoadUnits() {
    const auto* powers =
        reinterpret_cast<const float*>(DynamicShared() + S::kPowersAt);
    units[0] = powers[query];
    units[1] = powers[query + 8];
  }

  // Computes the weights of the first tile.
  __device__ __forceinline__ void WeighFirst(const AttentionShape& shape,
                                             const Task& task) {
    Begin<S>();
    StartScores<S>(KeysOf<S>(0), scores);
    Commit<S>();
    Await<S, 0>(scores);
    FinishScores<S>(shape, task, FoundTile<S>(0), units, scores);
    Weigh(scores, state, factors);
    PackWeights(scores, weights);
  }

  // Starts the scores of tile i + 1, and then the products of the weights of
  // tile i with its values.
  __device__ __forceinline__ void StartProducts(int i) {
    Begin<S>();
    StartScores<S>(KeysOf<S>(i + 1), scores);
    Commit<S>();
    StartSums<S>(ValuesOf<S>(i), weights, sums);
    Commit<S>();
  }

  // Turns the scores of the next tile into weights, beside products with
  // values.
  __device__ __forceinline__ void WeighNext(const AttentionShape& shape,
                                            const Task& task,
                                            const KeyTile& next) {
    Await<S, 1>(scores);
    FinishScores<S>(shape, task, next, units, scores);
    Weigh(scores, state, factors);
    if constexpr (S::kUsesWgmma) {
      StayBefore(DynamicShared() + S::kUnreadAt + ThreadIndex() * 4,
                 state.total[0] + state.total[1]);
    }
  }

  // Waits for the products with values, and rescales their sums to the next
  // tile's maxima.
  __device__ __forceinline__ void FinishSums() {
    Await<S, 0>(sums);
    // Weights may only change now that no product reads them.
    if constexpr (S::kUsesWgmma) KeepSums(scores);
    PackWeights(scores, weights);
    if (factors[0] != 1.0f || factors[1] != 1.0f) {
#pragma unroll
      for (int s = 0; s < S::kSums; ++s) sums[s] *= factors[s % 4 / 2];
    }
  }

  // Adds the values of the last tile.
  __device__ __forceinline__ void AddLast(int i) {
    Begin<S>();
    StartSums<S>(ValuesOf<S>(i), weights, sums);
    Commit<S>();
    Await<S, 0>(sums);
  }
};

// Finds a block's tiles for all of its threads.
template <class S>
class BlockFinder {
 public:
  // Finds the first tiles. All threads of the block call it.
  __device__ __forceinline__ BlockFinder(const AttentionShape& shape,
                                         const BlockTask& block)
      : finder_(shape, block) {
    Find(shape, block, 2);
    __syncthreads();
  }
  // Finds tiles until tile `index` has been found, or there are no more.
  __device__ __forceinline__ void Find(const AttentionShape& shape,
                                       const BlockTask& block, int index) {
    if (WarpIndex() == 0) finder_.Find(shape, block, index);
  }

 private:
  Finder<S> finder_;
};

// A block's way through its tiles. While the products of a tile run, the keys
// of the next but one and the values of the next arrive. What holds arrays is
// referred to: the compiler finds better code for the other members if they do
// not lie in one object with an array.
template <class S, DType kType>
struct PromptBlock {
  const AttentionShape& shape;
  const BlockTask& block;
  BlockFinder<S>& finder;
  TileRows<S, kType, true>& keys;
  TileRows<S, kType, false>& values;
  // Warps without queries only bring keys and values. Products of a warpgroup
  // do not depend on a condition, or the compiler would make each wait for the
  // one before.
  bool is_active;
  bool is_prefix = false;  // the rotation of the queries that are staged

  // Other types than F16 are loaded between products, and not all at once.
  static constexpr bool kIsBetween =
      S::kStages == 2 && !Bringer<S, kType>::kIsCopied;

  // Attends to all keys of the block's slice.
  __device__ __forceinline__ void Attend(PromptSums<S>& own) {
    if (!FoundTile<S>(0).is_there) return;
    AttendFirst(own);
    int i = 0;
    for (; FoundTile<S>(i + 1).is_there; ++i) AttendNext(i, own);
    if (is_active) own.AddLast(i);
  }

  // Computes the weights of the first tile, and brings its values and the keys
  // of the second one.
  __device__ __forceinline__ void AttendFirst(PromptSums<S>& own) {
    is_prefix = FoundTile<S>(0).step.is_prefix;
    StageQueries<S>(shape, block.task, is_prefix);
    keys.BringAll(0);
    Publish<S>();
    values.BringAll(0);
    own.LoadUnits();
    if (is_active) own.WeighFirst(shape, block.task);
    if constexpr (S::kStages == 1) __syncthreads();
    keys.BringAll(1);
    Publish<S>();
  }

  // Adds the values of tile i, and computes the weights of tile i + 1.
  __device__ __forceinline__ void AttendNext(int i, PromptSums<S>& own) {
    const KeyTile& next = FoundTile<S>(i + 1);
    StartBringing(i);
    if (next.step.is_prefix != is_prefix) ChangeQueries(next, own);
    if (is_active) own.StartProducts(i);
    if constexpr (kIsBetween) keys.Continue(i + 2);
    if (is_active) own.WeighNext(shape, block.task, next);
    if constexpr (kIsBetween) {
      keys.Finish(i + 2);
      values.Start(i + 1);
    }
    if (is_active) own.FinishSums();
    finder.Find(shape, block, i + 3);
    FinishBringing(i);
    Publish<S>();
  }

  // Starts what arrives while the products of tile i run.
  __device__ __forceinline__ void StartBringing(int i) {
    if constexpr (S::kStages == 2) {
      keys.Start(i + 2);
      if constexpr (Bringer<S, kType>::kIsCopied) values.Start(i + 1);
      CommitCopies();
    }
  }

  // Brings what has not arrived yet of the keys of tile i + 2 and the values of
  // tile i + 1; with one stage, that is all of it.
  __device__ __forceinline__ void FinishBringing(int i) {
    if constexpr (S::kStages == 1) {
      __syncthreads();
      keys.Start(i + 2);
      values.Start(i + 1);
      CommitCopies();
      keys.Finish(i + 2);
      values.Finish(i + 1);
    } else if constexpr (kIsBetween) {
      values.Continue(i + 1);
      values.Finish(i + 1);
    }
  }

  // Stages the queries with the rotation of tile `next`.
  __device__ __forceinline__ void ChangeQueries(const KeyTile& next,
                                                PromptSums<S>& own) {
    is_prefix = next.step.is_prefix;
    StageQueries<S>(shape, block.task, is_prefix);
    if constexpr (S::kUsesWgmma) PublishShared();
    __syncthreads();
    own.LoadUnits();
  }
};

// ---- Kernel ----------------------------------------------------------------

// Block i of the grid: the last tiles of rows, which see most, come first; then
// KV heads with the tiles of their head groups; then slices of the keys.
template <class S, DType kType>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    AttendPrompt(const __grid_constant__ AttentionShape shape,
                 const AttentionTile* tiles, int64_t n_tiles, int n_slices,
                 Slices slices) {
  WaitForKernelsBefore();
  const auto index = static_cast<int>(blockIdx.x) / n_slices;
  const auto group = static_cast<int>(shape.n_heads / shape.n_kv_heads);
  const auto n_head_tiles = static_cast<int>(shape.n_head_tiles);
  const int n_tasks = n_head_tiles * static_cast<int>(shape.n_kv_heads);
  const AttentionTile& rows = tiles[n_tiles - 1 - index / n_tasks];
  const BlockTask task = {
      TaskOf(shape, rows, group, index % n_tasks / n_head_tiles,
             index % n_tasks % n_head_tiles),
      static_cast<int>(blockIdx.x) % n_slices, n_slices};
  BlockFinder<S> finder(shape, task);
  TileRows<S, kType, true> keys(shape, task.task.kv_head);
  TileRows<S, kType, false> values(shape, task.task.kv_head);
  const bool is_active =
      S::kUsesWgmma || task.task.Row(WarpIndex() * 16) < rows.n_rows;
  PromptBlock<S, kType> block = {shape, task, finder, keys, values, is_active};
  PromptSums<S> own;
  block.Attend(own);
  if (n_slices > 1 && !MergeSlices<S>({slices, index, n_slices}, task.slice,
                                      is_active, own.state, own.sums)) {
    return;
  }
  if (is_active) WriteRows<S>(shape, task.task, own.state, own.sums);
}

__global__ void ClearCounts(uint32_t* counts, int n) {
  WaitForKernelsBefore();
  for (int i = ThreadIndex(); i < n; i += BlockThreads()) counts[i] = 0;
}

// How many blocks share the keys of a row. It depends on the model and the
// device alone, so that a row has the same bits in any step.
int SlicesOf(const Context& context, const AttentionShape& shape,
             int64_t tile_rows, int64_t blocks_at_once) {
  if (context.prompt_attention_slices > 0) {
    return static_cast<int>(
        std::min<int64_t>(context.prompt_attention_slices, kMaxSlices));
  }
  constexpr int64_t kRows = 512;  // rows of a usual step
  const int64_t n_blocks = (kRows + tile_rows - 1) / tile_rows *
                           shape.n_head_tiles * shape.n_kv_heads;
  const int64_t room = blocks_at_once * context.n_multiprocessors;
  int n_slices = 1;
  while (n_slices < kMaxSlices && n_blocks * n_slices * 4 < 3 * room)
    n_slices *= 2;
  return n_slices;
}

template <class S, DType kType>
void LaunchPrompt(const Context& context, const AttentionShape& shape,
                  std::span<const AttentionTile> host,
                  const AttentionTile* device) {
  constexpr int kClearThreads = 256;
  const int n_slices =
      SlicesOf(context, shape, S::kQueries / shape.tile_heads, S::kBlocks);
  const int64_t n_tasks = shape.n_head_tiles * shape.n_kv_heads;
  const int64_t block_bytes =
      n_slices == 1 ? 0
                    : n_slices * int64_t{S::kSums / 4 + 1} * S::kThreads * 16;
  // Counters have 16 bytes each, so that results begin at multiples of 16.
  const int64_t most = n_slices == 1
                           ? static_cast<int64_t>(host.size())
                           : kScratchBytes / (block_bytes + 16) / n_tasks;
  const auto n = static_cast<int64_t>(host.size());
  for (int64_t first = 0; first < n; first += most) {
    const int64_t n_tiles = std::min(most, n - first);
    const int64_t n_blocks = n_tiles * n_tasks;
    Slices slices = {};
    if (n_slices > 1) {
      slices.counts = reinterpret_cast<uint32_t*>(context.scratch);
      slices.results =
          reinterpret_cast<uint4*>(context.scratch + n_blocks * 16);
      Launch(ClearCounts, {1}, kClearThreads, 0, context.queue, slices.counts,
             static_cast<int>(n_blocks));
    }
    Launch(AttendPrompt<S, kType>, {n_blocks * n_slices}, S::kThreads,
           S::kSharedBytes, context.queue, shape, device + first, n_tiles,
           n_slices, slices);
  }
}

template <int kHead, DType kType>
void LaunchShape(const Context& context, const AttentionShape& shape,
                 std::span<const AttentionTile> host,
                 const AttentionTile* device) {
  if (context.wgmma_attention) {
    LaunchPrompt<PromptShape<kHead, true>, kType>(context, shape, host, device);
  } else {
    LaunchPrompt<PromptShape<kHead, false>, kType>(context, shape, host,
                                                   device);
  }
}

template <DType kType>
void LaunchType(const Context& context, const AttentionShape& shape,
                std::span<const AttentionTile> host,
                const AttentionTile* device) {
  if (shape.head_dim <= 64) {
    LaunchShape<64, kType>(context, shape, host, device);
  } else if (shape.head_dim <= 128) {
    LaunchShape<128, kType>(context, shape, host, device);
  } else {
    LaunchShape<256, kType>(context, shape, host, device);
  }
}

}  // namespace

int64_t PromptQueriesOf(const Context& context, int64_t head_dim) {
  if (head_dim > kNarrowHeadDim) return kPromptQueries;
  return context.wgmma_attention ? PromptShape<64, true>::kQueries
                                 : PromptShape<64, false>::kQueries;
}

void AttendPrompts(const Context& context, const AttentionShape& shape,
                   std::span<const AttentionTile> host,
                   const AttentionTile* device) {
  if (shape.head_dim > kNarrowHeadDim) {
    AttendWidePrompts(context, shape, host, device);
  } else if (shape.k_type == DType::kF16 && shape.v_type == DType::kF16) {
    LaunchType<DType::kF16>(context, shape, host, device);
  } else if (shape.k_type == DType::kQ8_0 && shape.v_type == DType::kQ8_0) {
    LaunchType<DType::kQ8_0>(context, shape, host, device);
  } else {
    LaunchType<DType::kBF16>(context, shape, host, device);
  }
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
