// The largest logits and sums of exponentials, in one launch.
//
// A logit and its id make one 64-bit key, and keys have the order of the
// result. A block of threads takes a chunk of a row, keeps its largest keys and
// adds up its exponentials. The last block of a row to end does the same with
// what all blocks of the row have kept, and writes the result to the host's
// memory. Sums have one order, and chunks depend only on a row's length.
//
// Keys are not sorted. Each thread gives the largest of its keys, and the 64th
// of those is a bound: no smaller key is among the 64 largest. About 70 keys of
// a chunk are not below it. The place of a key in the result is the number of
// larger ones.
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
constexpr int kRankSteps = 8;  // steps of RankIn's loop, as straight code
// Blocks that a multiprocessor runs at once: 64 registers for each thread.
[[maybe_unused]] constexpr int kBlocksOfProcessor = 4;

// The number of keys from which a thread selects at once: its part of a chunk,
// and one key that was kept before.
constexpr int kThreadKeys = kThreadLogits + 1;
// Keys that are not below the bound belong to kKept threads.
constexpr int kListKeys = kKept * kThreadKeys;
static_assert(kThreads >= kKept);
// A list of at most kFewKeys keys is not cut further: two threads find the rank
// of each key.
constexpr int kFewKeys = kThreads / 2;
static_assert(kFewKeys > kKept);

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
  uint64_t largest[kThreads];  // key of each thread
  uint64_t list[kListKeys];
  uint64_t bound;
  float maxima[kWarps];
  double sums[2][kWarps];  // sums of each warp, as in PartialSum
  int32_t n;               // keys in the list
  int32_t is_last;
  int32_t last_step;  // the last step with a key of its last rank in the list
};
static_assert(sizeof(Block) <= kUnaskedSharedBytes);

// What the blocks of a launch leave for the last one of each row.
struct Partials {
  uint64_t* kept;    // [rows, kKept, chunks]: first the largest of each chunk
  PartialSum* sums;  // [rows, chunks]
  int32_t* counts;   // [rows], zeros
};

// A row's temperature, and its chunks' results.
struct RowChunks {
  uint64_t* kept;    // [kKept, chunks]
  PartialSum* sums;  // [chunks]
  int n;
  float inverse;  // 1 / temperature
};

__device__ inline uint64_t Larger(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

// A sum at a temperature of 1 is the first of the two sums.
__device__ inline int SumsOf(float inverse) { return inverse == 1.0f ? 1 : 2; }

// BlockMax with less code. Between two calls the block has other barriers.
__device__ inline float BlockMaxOf(float x, float* maxima) {
  x = WarpMax(x);
  if (LaneIndex() == 0) maxima[WarpIndex()] = x;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kWarps; ++w) x = fmaxf(x, maxima[w]);
  return x;
}

// The number of keys that are larger than `key`. Two threads next to each other
// call it with the same key and get the same number. All lanes of a warp call
// it.
__device__ inline int RankIn(const uint64_t* keys, int n, uint64_t key) {
  int rank = 0;
#pragma unroll kRankSteps
  for (int i = ThreadIndex() % 2; i < n; i += 2) rank += keys[i] > key ? 1 : 0;
  return rank + __shfl_xor_sync(kFullWarp, rank, 1);
}

// Sets those of the bound's bits from `bit` on with which kKept or more of the
// warp's numbers are not below it. Returns true when exactly kKept are not.
template <class T>
__device__ inline bool RaiseBound(const T* own, int bit, T* bound) {
#pragma unroll 1
  for (; bit >= 0; --bit) {
    const T next = *bound | (T{1} << bit);
    uint32_t n[2] = {0, 0};
    for (int i = 0; i < kWarps; ++i) n[i % 2] += own[i] >= next ? 1 : 0;
    const uint32_t n_all = LaneSum(n[0] + n[1]);
    if (n_all >= kKept) *bound = next;
    if (n_all == kKept) return true;
  }
  return false;
}

// Returns a number such that exactly kKept of the kThreads keys are not below
// it. If less than kKept keys are not 0, it returns 1. One warp calls it.
__device__ inline uint64_t BoundOf(const uint64_t* keys) {
  uint64_t own[kWarps];
  uint32_t high[kWarps];
  uint32_t most = 0;
  uint32_t least = ~0u;
  for (int i = 0; i < kWarps; ++i) {
    own[i] = keys[i * kWarpThreads + LaneIndex()];
    high[i] = static_cast<uint32_t>(own[i] >> 32);
    most = high[i] > most ? high[i] : most;
    least = high[i] < least ? high[i] : least;
  }
  most = LaneMax(most);
  least = LaneMin(least);
  // All keys have the same bits before the last n_bits of the upper half.
  const int n_bits = BitWidth(most ^ least);
  auto high_bound = static_cast<uint32_t>(uint64_t{most} >> n_bits << n_bits);
  const bool is_done = RaiseBound(high, n_bits - 1, &high_bound);
  uint64_t bound = uint64_t{high_bound} << 32;
  if (!is_done) RaiseBound(own, 31, &bound);
  return bound > 0 ? bound : 1;
}

// Makes the block's list of all threads' keys, without some that are not among
// the kKept largest, and returns how many are left: at most kFewKeys. Keys of 0
// are none; other keys differ. `keys` may come from the list.
__device__ inline int KeepLargest(uint64_t* keys, Block* block) {
  const int thread = ThreadIndex();
  while (true) {
    uint64_t max = keys[0];
    for (int i = 1; i < kThreadKeys; ++i) max = Larger(max, keys[i]);
    block->largest[thread] = max;
    __syncthreads();
    if (WarpIndex() == 0) {
      const uint64_t bound = BoundOf(block->largest);
      if (thread == 0) {
        block->bound = bound;
        block->n = 0;
      }
    }
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
    // A list of n keys becomes one of at most n / 4 + kKept.
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

// Adds up a value of each thread in two steps. First each warp's sum goes to
// `sums`. One thread calls TotalOf after the block's next barrier.
__device__ inline void PutWarpSum(double x, double* sums) {
  x = WarpSum(x);
  if (LaneIndex() == 0) sums[WarpIndex()] = x;
}
__device__ inline double TotalOf(const double* sums) {
  double total = sums[0];
#pragma unroll 1
  for (int w = 1; w < kWarps; ++w) total += sums[w];
  return total;
}

// Takes chunk blockIdx.x of the row at `logits`.
__device__ inline void TakeChunk(const float* logits, int64_t n,
                                 const RowChunks& row, Block* block) {
  const float inverse = row.inverse;
  const int64_t first = blockIdx.x * kChunk;
  const auto n_logits =
      static_cast<int>(n - first < kChunk ? n - first : kChunk);
  float x[kThreadLogits];
  uint64_t keys[kThreadKeys];
  for (int i = 0; i < kThreadLogits; ++i) {
    const int at = i * kThreads + ThreadIndex();
    x[i] = at < n_logits ? logits[first + at] : MinusInfinity();
  }
  float max = MinusInfinity();
  bool is_bad = false;
  for (int i = 0; i < kThreadLogits; ++i) {
    const int at = i * kThreads + ThreadIndex();
    const uint64_t key = KeyOf(x[i], first + at);
    keys[i] = at < n_logits ? key : 0;
    if (at < n_logits && !IsFinite(x[i])) is_bad = true;
    max = fmaxf(max, x[i]);
  }
  keys[kThreadLogits] = 0;
  max = BlockMaxOf(max, block->maxima);
  const double of_bad = is_bad ? static_cast<double>(NotANumber()) : 0.0;
#pragma unroll 1
  for (int s = 0; s < SumsOf(inverse); ++s) {
    const float scale = s == 0 ? 1.0f : inverse;
    double sum = of_bad;
    for (int i = 0; i < kThreadLogits; ++i) {
      sum += static_cast<double>(expf((x[i] - max) * scale));
    }
    PutWarpSum(sum, block->sums[s]);
  }
  const int n_left = KeepLargest(keys, block);
  if (ThreadIndex() == kThreads - 1) {
    const double sum = TotalOf(block->sums[0]);
    row.sums[blockIdx.x] = {
        sum, SumsOf(inverse) == 1 ? sum : TotalOf(block->sums[1]),
        sum == sum ? static_cast<double>(max) : 0.0};
  }
  WriteLargest(block, n_left, row.kept + blockIdx.x, gridDim.x);
}

// Gets a thread's part of the keys of one step of MergeChunks.
__device__ inline void GetKept(const uint64_t* kept, int64_t n_keys, int step,
                               uint64_t* keys) {
  for (int i = 0; i < kThreadLogits; ++i) {
    const int64_t at = step * kChunk + i * kThreads + ThreadIndex();
    keys[i] = at < n_keys ? LoadWritten(kept + at) : 0;
  }
}

// Merges the sums of the row's chunks to those of the block's warps. Returns
// the row's largest logit.
__device__ inline float MergeSums(const RowChunks& row, Block* block) {
  const PartialSum* const sums = row.sums;
  const int n_chunks = row.n;
  const float inverse = row.inverse;
  float max = MinusInfinity();
#pragma unroll 1
  for (int c = ThreadIndex(); c < n_chunks; c += kThreads) {
    max = fmaxf(max, static_cast<float>(LoadWritten(&sums[c].max)));
  }
  max = BlockMaxOf(max, block->maxima);
#pragma unroll 1
  for (int s = 0; s < SumsOf(inverse); ++s) {
    const double scale = s == 0 ? 1.0 : static_cast<double>(inverse);
    double sum = 0;
#pragma unroll 1
    for (int c = ThreadIndex(); c < n_chunks; c += kThreads) {
      const double below = LoadWritten(&sums[c].max) - static_cast<double>(max);
      sum += LoadWritten(s == 0 ? &sums[c].sum : &sums[c].mass) *
             exp(below * scale);
    }
    PutWarpSum(sum, block->sums[s]);
  }
  return max;
}

// Merges what the row's chunks have left. Kept keys of one rank lie together.
// When no key of a rank is left, none of a later rank can be.
__device__ inline void MergeChunks(const RowChunks& row, RowResult* result,
                                   Block* block) {
  const uint64_t* const kept = row.kept;
  const int n_chunks = row.n;
  const int64_t n_keys = int64_t{n_chunks} * kKept;
  uint64_t keys[kThreadKeys];
  GetKept(kept, n_keys, 0, keys);
  if (ThreadIndex() == 0) block->last_step = -1;
  const float max = MergeSums(row, block);
  int n = 0;
#pragma unroll 1
  for (int step = 0;; GetKept(kept, n_keys, ++step, keys)) {
    const int64_t end = (step + 1) * kChunk;
    uint64_t largest = 0;  // key of the last rank that is whole in this step
    for (int i = 0; i < kThreadLogits; ++i) {
      const int64_t from_end = kChunk - (i * kThreads + ThreadIndex());
      if (from_end <= n_chunks) largest = Larger(largest, keys[i]);
    }
    keys[kThreadLogits] = ThreadIndex() < n ? block->list[ThreadIndex()] : 0;
    n = KeepLargest(keys, block);
    if (end >= n_keys) break;
    if (largest >= block->bound) block->last_step = step;
    __syncthreads();
    if (block->last_step != step && n_chunks <= kChunk) break;
  }
  if (ThreadIndex() == kThreads - 1) {
    const double sum = TotalOf(block->sums[0]);
    result->log_sum_exp = static_cast<double>(max) + log(sum);
    result->mass = SumsOf(row.inverse) == 1 ? sum : TotalOf(block->sums[1]);
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
  const RowChunks chunks = {.kept = partials.kept + row * n_chunks * kKept,
                            .sums = partials.sums + row * n_chunks,
                            .n = n_chunks,
                            .inverse = inverse.of[static_cast<size_t>(row)]};
  TakeChunk(logits + row * n, n, chunks, block);
  if (IsLastToArrive(partials.counts + row, n_chunks, &block->is_last)) {
    MergeChunks(chunks, results + row, block);
  }
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
