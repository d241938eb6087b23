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

#include "kernels/cuda/attention/attention_prompt_tiles.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

// ---- Results ---------------------------------------------------------------

// Results of slices in the scratch memory, in the order of threads: 16 bytes of
// all threads follow each other. First come the softmaxes, then the sums.
struct Slices {
  uint32_t* counts;  // how many of each block's slices have ended
  uint4* results;

  template <class S>
  __device__ uint4* At(int64_t block, int n_slices, int slice, int four) const {
    constexpr int kFours = S::kSums / 4 + 1;
    return results +
           ((block * n_slices + slice) * kFours + four) * S::kThreads +
           ThreadIndex();
  }
};

// Stores a slice's result. Returns true in the block that ends last, which then
// has the merged result of all slices.
template <class S>
__device__ bool MergeSlices(const Slices& slices, int64_t block, int slice,
                            int n_slices, bool is_active, PromptSoftmax& state,
                            float* sums) {
  constexpr int kFours = S::kSums / 4;
  if (is_active) {
    *slices.At<S>(block, n_slices, slice, 0) = {
        BitsOfFloat(state.max[0]), BitsOfFloat(state.max[1]),
        BitsOfFloat(state.total[0]), BitsOfFloat(state.total[1])};
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      const float* four = sums + 4 * i;
      *slices.At<S>(block, n_slices, slice, i + 1) = {
          BitsOfFloat(four[0]), BitsOfFloat(four[1]), BitsOfFloat(four[2]),
          BitsOfFloat(four[3])};
    }
  }
  __threadfence();
  __syncthreads();
  auto* is_last = reinterpret_cast<uint32_t*>(DynamicShared() + S::kPowersAt);
  if (ThreadIndex() == 0) {
    const uint32_t n_before = CountAtomically(slices.counts + block);
    *is_last = n_before + 1 == static_cast<uint32_t>(n_slices) ? 1 : 0;
  }
  __syncthreads();
  if (*is_last == 0) return false;
  __threadfence();
  if (!is_active) return true;
  uint4 states[kMaxSlices];
  float max[2] = {MinusInfinity(), MinusInfinity()};
#pragma unroll
  for (int p = 0; p < kMaxSlices; ++p) {
    if (p >= n_slices) break;
    states[p] = *slices.At<S>(block, n_slices, p, 0);
    max[0] = fmaxf(max[0], FloatOfBits(states[p].x));
    max[1] = fmaxf(max[1], FloatOfBits(states[p].y));
  }
  state = {{max[0], max[1]}, {0, 0}};
  float factors[kMaxSlices][2];
#pragma unroll
  for (int p = 0; p < kMaxSlices; ++p) {
    if (p >= n_slices) break;
    const float maxima[2] = {FloatOfBits(states[p].x),
                             FloatOfBits(states[p].y)};
    const float totals[2] = {FloatOfBits(states[p].z),
                             FloatOfBits(states[p].w)};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float from = max[half] == MinusInfinity() ? 0.0f : max[half];
      factors[p][half] = PowerOfTwo(maxima[half] - from);
      state.total[half] += totals[half] * factors[p][half];
    }
  }
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    float four[4] = {};
#pragma unroll
    for (int p = 0; p < kMaxSlices; ++p) {
      if (p >= n_slices) break;
      const uint4 stored = *slices.At<S>(block, n_slices, p, i + 1);
      four[0] += FloatOfBits(stored.x) * factors[p][0];
      four[1] += FloatOfBits(stored.y) * factors[p][0];
      four[2] += FloatOfBits(stored.z) * factors[p][1];
      four[3] += FloatOfBits(stored.w) * factors[p][1];
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[4 * i + e] = four[e];
  }
  return true;
}

template <class S>
__device__ void WriteRows(const AttentionShape& shape, const Task& task,
                          const PromptSoftmax& state, const float* sums) {
  const int lane = LaneIndex();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float total = state.total[half];
    for (int mask = 1; mask < 4; mask *= 2) {
      total += __shfl_xor_sync(kFullWarp, total, mask);
    }
    const int query = WarpIndex() * 16 + lane / 4 + half * 8;
    if (!task.Has(query)) continue;
    // A sink takes part once. One far above the scores makes the total
    // infinite; the row is then zeros.
    if (shape.sinks != nullptr && total != 0.0f) {
      total += PowerOfTwo(shape.sinks[task.Head(query)] * kLog2OfE -
                          state.max[half]);
    }
    const float factor = total == 0.0f ? 0.0f : 1.0f / total;
    float* out = shape.out + task.Index(query, shape.n_heads) * shape.value_dim;
#pragma unroll
    for (int n = 0; n < S::kChunks; ++n) {
      const int at = n * 8 + lane % 4 * 2;
      if (at >= shape.value_dim) continue;
      const float* pair = sums + 4 * n + 2 * half;
      *reinterpret_cast<uint2*>(out + at) = {BitsOfFloat(pair[0] * factor),
                                             BitsOfFloat(pair[1] * factor)};
    }
  }
}

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
  const auto tile_heads = static_cast<int>(shape.tile_heads);
  const auto n_head_tiles = static_cast<int>(shape.n_head_tiles);
  const int n_tasks = n_head_tiles * static_cast<int>(shape.n_kv_heads);
  const int head_tile = index % n_tasks % n_head_tiles;
  const int kv_head = index % n_tasks / n_head_tiles;
  const int left = group - head_tile * tile_heads;
  const AttentionTile& rows = tiles[n_tiles - 1 - index / n_tasks];
  const BlockTask block = {
      {rows, kv_head, kv_head * group + head_tile * tile_heads,
       left < tile_heads ? left : tile_heads, tile_heads},
      static_cast<int>(blockIdx.x) % n_slices,
      n_slices};
  const Task& task = block.task;
  const bool is_finder = WarpIndex() == 0;
  Finder<S> finder(shape, block);
  if (is_finder) finder.Find(shape, block, 2);
  __syncthreads();

  const int64_t first_element = kv_head * shape.head_dim;
  Bringer<S, kType> keys(shape.k_type, first_element, shape.head_dim,
                         shape.k_row_bytes);
  Bringer<S, kType> values(shape.v_type, first_element, shape.value_dim,
                           shape.v_row_bytes);
  const auto with_keys = [&](int i, const auto& bring) {
    const KeyTile& tile = FoundTile<S>(i);
    if (!tile.is_there) return;
    bring(
        keys, tile, tile.k,
        [&](int key) { return KeyRow(shape, tile.step, key); }, KeysOf<S>(i));
  };
  const auto with_values = [&](int i, const auto& bring) {
    const KeyTile& tile = FoundTile<S>(i);
    if (!tile.is_there) return;
    bring(
        values, tile, tile.v,
        [&](int key) { return ValueRow(shape, tile.step, key); },
        ValuesOf<S>(i));
  };
  const auto start = [](auto& rows, const auto&... arguments) {
    rows.Start(arguments...);
  };
  const auto go_on = [](auto& rows, const auto&... arguments) {
    rows.Continue(arguments...);
  };
  const auto finish = [](auto& rows, const auto&... arguments) {
    rows.Finish(arguments...);
  };
  // All threads' copies and stores are there for all.
  const auto publish = [&] {
    WaitForCopies<0>();
    if constexpr (S::kUsesWgmma) PublishShared();
    __syncthreads();
  };

  // Warps without queries only bring keys and values. Products of a warpgroup
  // do not depend on a condition, or the compiler would make each wait for the
  // one before.
  const bool is_active =
      S::kUsesWgmma || task.Row(WarpIndex() * 16) < rows.n_rows;
  const int query = WarpIndex() * 16 + LaneIndex() / 4;
  const auto* powers =
      reinterpret_cast<const float*>(DynamicShared() + S::kPowersAt);
  PromptSoftmax state = {{MinusInfinity(), MinusInfinity()}, {0, 0}};
  float sums[S::kSums] = {};
  float scores[kScores] = {};
  uint32_t weights[kWeights] = {};
  float factors[2];
  float units[2];
  if (FoundTile<S>(0).is_there) {
    bool is_prefix = FoundTile<S>(0).step.is_prefix;
    StageQueries<S>(shape, task, is_prefix);
    with_keys(0, start);
    CommitCopies();
    with_keys(0, go_on);
    with_keys(0, finish);
    publish();
    with_values(0, start);
    CommitCopies();
    with_values(0, go_on);
    with_values(0, finish);
    units[0] = powers[query];
    units[1] = powers[query + 8];
    if (is_active) {
      Begin<S>();
      StartScores<S>(KeysOf<S>(0), scores);
      Commit<S>();
      Await<S, 0>(scores);
      FinishScores<S>(shape, task, FoundTile<S>(0), units, scores);
      Weigh(scores, state, factors);
      PackWeights(scores, weights);
    }
    if constexpr (S::kStages == 1) __syncthreads();
    with_keys(1, start);
    CommitCopies();
    with_keys(1, go_on);
    with_keys(1, finish);
    publish();
    int i = 0;
    for (; FoundTile<S>(i + 1).is_there; ++i) {
      const KeyTile& next = FoundTile<S>(i + 1);
      if constexpr (S::kStages == 2) {
        with_keys(i + 2, start);
        if constexpr (Bringer<S, kType>::kIsCopied) with_values(i + 1, start);
        CommitCopies();
      }
      if (next.step.is_prefix != is_prefix) {
        is_prefix = next.step.is_prefix;
        StageQueries<S>(shape, task, is_prefix);
        if constexpr (S::kUsesWgmma) PublishShared();
        __syncthreads();
        units[0] = powers[query];
        units[1] = powers[query + 8];
      }
      if (is_active) {
        Begin<S>();
        StartScores<S>(KeysOf<S>(i + 1), scores);
        Commit<S>();
        StartSums<S>(ValuesOf<S>(i), weights, sums);
        Commit<S>();
      }
      // Other types than F16 are loaded between, and not all at once.
      constexpr bool kIsBetween =
          S::kStages == 2 && !Bringer<S, kType>::kIsCopied;
      if constexpr (kIsBetween) with_keys(i + 2, go_on);
      if (is_active) {
        Await<S, 1>(scores);
        FinishScores<S>(shape, task, next, units, scores);
        Weigh(scores, state, factors);
        if constexpr (S::kUsesWgmma) {
          StayBefore(DynamicShared() + S::kUnreadAt + ThreadIndex() * 4,
                     state.total[0] + state.total[1]);
        }
      }
      if constexpr (kIsBetween) {
        with_keys(i + 2, finish);
        with_values(i + 1, start);
      }
      if (is_active) {
        Await<S, 0>(sums);
        // Weights may only change now that no product reads them.
        if constexpr (S::kUsesWgmma) KeepSums(scores);
        PackWeights(scores, weights);
        if (factors[0] != 1.0f || factors[1] != 1.0f) {
#pragma unroll
          for (int s = 0; s < S::kSums; ++s) sums[s] *= factors[s % 4 / 2];
        }
      }
      if (is_finder) finder.Find(shape, block, i + 3);
      if constexpr (S::kStages == 1) {
        __syncthreads();
        with_keys(i + 2, start);
        with_values(i + 1, start);
        CommitCopies();
        with_keys(i + 2, finish);
        with_values(i + 1, finish);
      } else if constexpr (kIsBetween) {
        with_values(i + 1, go_on);
        with_values(i + 1, finish);
      }
      publish();
    }
    if (is_active) {
      Begin<S>();
      StartSums<S>(ValuesOf<S>(i), weights, sums);
      Commit<S>();
      Await<S, 0>(sums);
    }
  }
  if (n_slices > 1 && !MergeSlices<S>(slices, index, block.slice, n_slices,
                                      is_active, state, sums)) {
    return;
  }
  if (is_active) WriteRows<S>(shape, task, state, sums);
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
