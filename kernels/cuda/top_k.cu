// The largest logits and sums of exponentials, in one launch.
//
// A logit and its id make one 64-bit key, and keys have the order of the
// result. A block of threads takes a chunk of a row, keeps its largest keys and
// adds up its exponentials. The last block of a row to end does the same with
// what all blocks of the row have kept, and writes the result to the host's
// memory. Sums have one order, and chunks depend only on a row's length.
//
// Keys are not sorted. Each group of threads gives its largest key, and the
// 64th of those is a bound: no smaller key is among the 64 largest. About 90
// keys of a chunk are not below it. The place of a key in the result is the
// number of larger ones.
#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/logit_key.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpThreads;
constexpr int kThreadLogits = 8;
constexpr int64_t kChunk = int64_t{kThreads} * kThreadLogits;
constexpr int kKept = static_cast<int>(kMaxCandidates);
constexpr int64_t kRowsOfLaunch = 256;
// Blocks that a multiprocessor runs at once: 64 registers for each thread.
constexpr int kBlocksOfProcessor = 4;

// A group is two threads next to each other.
constexpr int kGroups = kThreads / 2;
static_assert(kGroups >= kKept);
// A thread selects from so many keys at once: its part of a chunk and one that
// was kept before.
constexpr int kThreadKeys = kThreadLogits + 1;
// Keys that are not below the bound belong to kKept groups.
constexpr int kListKeys = kKept * 2 * kThreadKeys;
// A list of at most so many keys is not cut further. Among 2 kGroups keys a
// group has two, so kKept groups have no more than this.
constexpr int kFewKeys = kGroups;
static_assert(kFewKeys >= 2 * kKept);

// A chunk's part of a row's sums of exp(x - max) and of exp((x - max) /
// temperature). They are not numbers if any logit is not finite.
struct PartialSum {
  double sum;
  double mass;
  double max;
};

// The result of one row.
struct RowResult {
  double log_sum_exp;
  double mass;
  uint64_t keys[kKept];
};

// 1 for rows without a temperature.
struct InverseTemperatures {
  std::array<float, kRowsOfLaunch> of;
};

// A block's shared memory.
struct Block {
  uint64_t groups[kGroups];  // the largest key of each
  uint64_t list[kListKeys];
  uint64_t bound;
  double sums[kWarps];
  int32_t n;  // keys in the list
  int32_t is_last;
  int32_t last_step;  // that had a key of its last rank in the list
};
static_assert(sizeof(Block) <= kUnaskedSharedBytes);

// What the blocks of a launch leave for the last one of each row.
struct Partials {
  uint64_t* kept;    // [rows, kKept, chunks]: first the largest of each chunk
  PartialSum* sums;  // [rows, chunks]
  int32_t* counts;   // [rows], zeros
};

__device__ inline uint64_t Larger(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

// The number of keys that are larger than `key`. The two threads of a group
// call it with the same key and get the same number. All lanes of a warp call
// it.
__device__ inline int RankIn(const uint64_t* keys, int n, uint64_t key) {
  int rank = 0;
#pragma unroll 4
  for (int i = ThreadIndex() % 2; i < n; i += 2) rank += keys[i] > key ? 1 : 0;
  return rank + __shfl_xor_sync(kFullWarp, rank, 1);
}

// Makes the block's list of all threads' keys, without some that are not among
// the kKept largest, and returns how many are left: at most kFewKeys. Keys of 0
// are none; other keys differ. `keys` may come from the list.
__device__ inline int KeepLargest(uint64_t* keys, Block* block) {
  const int thread = ThreadIndex();
  while (true) {
    uint64_t max = keys[0];
    for (int i = 1; i < kThreadKeys; ++i) max = Larger(max, keys[i]);
    max = Larger(max, __shfl_xor_sync(kFullWarp, max, 1));
    if (thread % 2 == 0) block->groups[thread / 2] = max;
    if (thread == 0) block->bound = 1;
    __syncthreads();
    if (RankIn(block->groups, kGroups, max) == kKept - 1 && max != 0 &&
        thread % 2 == 0) {
      block->bound = max;
    }
    if (thread == 0) block->n = 0;
    __syncthreads();
    const uint64_t bound = block->bound;
    int n_own = 0;
    for (int i = 0; i < kThreadKeys; ++i) n_own += keys[i] >= bound ? 1 : 0;
    if (n_own > 0) {
      int32_t place = FetchAndAdd(&block->n, n_own);
      for (int i = 0; i < kThreadKeys; ++i) {
        if (keys[i] >= bound) block->list[place++] = keys[i];
      }
    }
    __syncthreads();
    const int n = block->n;
    if (n <= kFewKeys) return n;
    // A list of n keys becomes one of at most n / 2 + kGroups.
    for (int i = 0; i < kThreadKeys; ++i) {
      const int at = i * kThreads + thread;
      keys[i] = at < n ? block->list[at] : 0;
    }
  }
}

// Writes the kKept largest of the list's n keys, `stride` apart, the largest
// first; zeros if there are fewer.
__device__ inline void WriteLargest(const Block* block, int n, uint64_t* to,
                                    int64_t stride) {
  const int at = ThreadIndex() / 2;
  if (WarpIndex() * kWarpThreads / 2 < n) {
    const uint64_t key = block->list[at < n ? at : 0];
    const int rank = RankIn(block->list, n, key);
    if (ThreadIndex() % 2 == 0 && at < n && rank < kKept) {
      to[rank * stride] = key;
    }
  }
  if (ThreadIndex() >= n && ThreadIndex() < kKept) {
    to[ThreadIndex() * stride] = 0;
  }
}

// The sum of exp((x - max) * scale) over the first n of each thread's logits.
__device__ inline double SumOfExp(const float* x, int n, float max, float scale,
                                  double* shared) {
  double sum = 0;
  for (int i = 0; i < kThreadLogits; ++i) {
    if (i < n) sum += static_cast<double>(expf((x[i] - max) * scale));
    // A difference from infinity may count as 0.
    if (i < n && !IsFinite(x[i])) sum = static_cast<double>(NotANumber());
  }
  return BlockSum(sum, shared);
}

// Takes chunk blockIdx.x of the row at `logits`.
__device__ inline void TakeChunk(const float* logits, int64_t n, float inverse,
                                 uint64_t* kept, PartialSum* sums,
                                 Block* block) {
  const int64_t first = blockIdx.x * kChunk + ThreadIndex();
  float x[kThreadLogits];
  uint64_t keys[kThreadKeys];
  float max = MinusInfinity();
  int n_own = 0;
  for (int i = 0; i < kThreadLogits; ++i) {
    const int64_t id = first + i * kThreads;
    x[i] = id < n ? logits[id] : MinusInfinity();
    if (id < n) n_own = i + 1;
  }
  for (int i = 0; i < kThreadLogits; ++i) {
    keys[i] = i < n_own ? KeyOf(x[i], first + i * kThreads) : 0;
    max = fmaxf(max, x[i]);
  }
  keys[kThreadLogits] = 0;
  max = BlockMax(max, reinterpret_cast<float*>(block->sums));
  const double sum = SumOfExp(x, n_own, max, 1.0f, block->sums);
  const double mass =
      inverse == 1.0f ? sum : SumOfExp(x, n_own, max, inverse, block->sums);
  if (ThreadIndex() == 0) {
    const bool is_bad = sum != sum;
    sums[blockIdx.x] = {sum, mass, is_bad ? 0.0 : static_cast<double>(max)};
  }
  const int n_left = KeepLargest(keys, block);
  WriteLargest(block, n_left, kept + blockIdx.x, gridDim.x);
}

// Merges the sums of the row's chunks.
__device__ inline void MergeSums(const PartialSum* sums, int n_chunks,
                                 float inverse, RowResult* result,
                                 Block* block) {
  float max = MinusInfinity();
  for (int c = ThreadIndex(); c < n_chunks; c += kThreads) {
    max = fmaxf(max, static_cast<float>(LoadWritten(&sums[c].max)));
  }
  max = BlockMax(max, reinterpret_cast<float*>(block->sums));
  double sum = 0;
  double mass = 0;
  for (int c = ThreadIndex(); c < n_chunks; c += kThreads) {
    const double below = LoadWritten(&sums[c].max) - static_cast<double>(max);
    sum += LoadWritten(&sums[c].sum) * exp(below);
    if (inverse != 1.0f) {
      mass += LoadWritten(&sums[c].mass) *
              exp(below * static_cast<double>(inverse));
    }
  }
  sum = BlockSum(sum, block->sums);
  mass = inverse == 1.0f ? sum : BlockSum(mass, block->sums);
  if (ThreadIndex() == 0) {
    result->log_sum_exp = static_cast<double>(max) + log(sum);
    result->mass = mass;
  }
}

// Merges the keys that the row's chunks have kept. Those of one rank lie
// together. When no key of a rank is left, none of a later rank can be.
__device__ inline void MergeKeys(const uint64_t* kept, int n_chunks,
                                 RowResult* result, Block* block) {
  const int64_t n_keys = int64_t{n_chunks} * kKept;
  if (ThreadIndex() == 0) block->last_step = -1;
  int n = 0;
  for (int step = 0; step * kChunk < n_keys; ++step) {
    const int64_t first = step * kChunk + ThreadIndex();
    const int64_t last_rank = (step + 1) * kChunk - n_chunks;
    uint64_t keys[kThreadKeys];
    for (int i = 0; i < kThreadLogits; ++i) {
      const int64_t at = first + i * kThreads;
      keys[i] = at < n_keys ? LoadWritten(kept + at) : 0;
    }
    uint64_t largest = 0;  // of the last rank that is whole in this step
    for (int i = 0; i < kThreadLogits; ++i) {
      if (first + i * kThreads >= last_rank) largest = Larger(largest, keys[i]);
    }
    keys[kThreadLogits] = ThreadIndex() < n ? block->list[ThreadIndex()] : 0;
    n = KeepLargest(keys, block);
    if (largest >= block->bound) block->last_step = step;
    __syncthreads();
    if (block->last_step != step && n_chunks <= kChunk) break;
  }
  WriteLargest(block, n, result->keys, 1);
}

// Block (c, r) takes chunk c of row r. `results` is in the host's memory.
__global__ void __launch_bounds__(kThreads, kBlocksOfProcessor)
    SelectLargest(const float* logits, int64_t n, InverseTemperatures inverse,
                  Partials partials, RowResult* results) {
  auto* block = reinterpret_cast<Block*>(DynamicShared());
  const int64_t row = blockIdx.y;
  const auto n_chunks = static_cast<int>(gridDim.x);
  uint64_t* kept = partials.kept + row * n_chunks * kKept;
  PartialSum* sums = partials.sums + row * n_chunks;
  TakeChunk(logits + row * n, n, inverse.of[row], kept, sums, block);
  if (!IsLastToArrive(partials.counts + row, n_chunks, &block->is_last)) {
    return;
  }
  MergeSums(sums, n_chunks, inverse.of[row], results + row, block);
  MergeKeys(kept, n_chunks, results + row, block);
}

int64_t Chunks(int64_t n) { return (n + kChunk - 1) / kChunk; }

// Device memory for one row of n logits.
int64_t RowBytes(int64_t n) {
  return Chunks(n) * (kKept * 8 + static_cast<int64_t>(sizeof(PartialSum)));
}

// Rows [first, first + n_rows) of `args`.
absl::Status TopKOf(const Context& context, const TopKArgs& args, int64_t first,
                    int64_t n_rows) {
  const int64_t n_chunks = Chunks(args.n);
  auto* kept = reinterpret_cast<uint64_t*>(context.scratch);
  const Partials partials = {
      .kept = kept,
      .sums = reinterpret_cast<PartialSum*>(kept + n_rows * n_chunks * kKept),
      .counts = context.counts};
  InverseTemperatures inverse;
  inverse.of.fill(1.0f);
  if (args.masses != nullptr) {
    std::copy_n(args.inverse_temperatures + first, n_rows, inverse.of.begin());
  }
  auto* results = reinterpret_cast<RowResult*>(context.results);
  Launch(SelectLargest, {n_chunks, n_rows}, kThreads, sizeof(Block),
         context.stream, args.logits + first * args.n, args.n, inverse,
         partials, results);
  RETURN_IF_ERROR(LaunchStatus());
  RETURN_IF_ERROR(WaitForStream(context.stream));
  for (int64_t r = 0; r < n_rows; ++r) {
    const int64_t row = first + r;
    args.log_sum_exp[row] = results[r].log_sum_exp;
    if (args.masses != nullptr) args.masses[row] = results[r].mass;
    for (int64_t i = 0; i < args.k; ++i) {
      const uint64_t key = results[r].keys[i];
      args.values[row * args.k + i] = LogitOf(static_cast<uint32_t>(key >> 32));
      args.ids[row * args.k + i] = IdOf(key);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status TopK(const Context& context, const TopKArgs& args) {
  static_assert(kRowsOfLaunch <= kCounts);
  static_assert(kRowsOfLaunch * sizeof(RowResult) <= kResultBytes);
  const int64_t batch =
      std::min(kScratchBytes / RowBytes(args.n), kRowsOfLaunch);
  if (batch == 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("rows of ", args.n, " logits take more than the kernels' ",
                     kScratchBytes, " bytes"));
  }
  for (int64_t first = 0; first < args.n_rows; first += batch) {
    RETURN_IF_ERROR(
        TopKOf(context, args, first, std::min(batch, args.n_rows - first)));
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
