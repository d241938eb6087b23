// The largest logits and sums of exponentials.
//
// A logit and its id make one 64-bit key, and keys have the order of the
// result. A block of threads sorts a chunk of keys and keeps the first ones.
// The kept keys are sorted and cut in the same way until one chunk is left.
// Sums over chunks have one order.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/logit_key.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpThreads;
constexpr int64_t kChunk = 2048;
constexpr int64_t kKept = kMaxCandidates;

// Shared memory has the keys, then one value for each warp for sums.
constexpr int64_t kSharedBytes = kChunk * 8 + kWarps * 8;
static_assert(kSharedBytes <= kUnaskedSharedBytes);

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

// Sorts kChunk keys in descending order: a bitonic network.
__device__ void SortDescending(uint64_t* keys) {
  for (int size = 2; size <= kChunk; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      for (int i = ThreadIndex(); i < kChunk / 2; i += kThreads) {
        const int low = i / stride * 2 * stride + i % stride;
        const bool is_descending = (low & size) == 0;
        const uint64_t a = keys[low];
        const uint64_t b = keys[low + stride];
        if ((a < b) == is_descending) {
          keys[low] = b;
          keys[low + stride] = a;
        }
      }
    }
  }
  __syncthreads();
}

__device__ inline void WriteKept(const uint64_t* keys, uint64_t* kept) {
  for (int i = ThreadIndex(); i < kKept; i += kThreads) kept[i] = keys[i];
}

// Returns 1 where no temperatures were given.
__device__ inline float InverseOf(const float* inverse_temperatures,
                                  int64_t row) {
  return inverse_temperatures != nullptr ? inverse_temperatures[row] : 1.0f;
}

// The sum of exp((x - max) * scale) over the chunk that begins at `first`.
__device__ inline double SumOfExp(const float* logits, int64_t n, int64_t first,
                                  float max, float scale, double* shared) {
  double sum = 0;
  for (int64_t i = ThreadIndex(); i < kChunk && first + i < n; i += kThreads) {
    sum += static_cast<double>(expf((logits[first + i] - max) * scale));
  }
  return BlockSum(sum, shared);
}

// Block (c, r) takes chunk c of row r.
__global__ void SelectFromLogits(const float* logits, int64_t n,
                                 const float* inverse_temperatures,
                                 uint64_t* kept, PartialSum* sums) {
  auto* keys = reinterpret_cast<uint64_t*>(DynamicShared());
  auto* shared = reinterpret_cast<double*>(keys + kChunk);
  const int64_t chunk = int64_t{blockIdx.y} * gridDim.x + blockIdx.x;
  logits += blockIdx.y * n;
  const int64_t first = blockIdx.x * kChunk;
  float max = MinusInfinity();
  int bad = 0;
  for (int64_t i = ThreadIndex(); i < kChunk; i += kThreads) {
    const int64_t id = first + i;
    keys[i] = 0;
    if (id >= n) continue;
    const float x = logits[id];
    keys[i] = KeyOf(x, id);
    max = fmaxf(max, x);
    if (!IsFinite(x)) bad = 1;
  }
  max = BlockMax(max, reinterpret_cast<float*>(shared));
  const float inverse = InverseOf(inverse_temperatures, blockIdx.y);
  const double sum = SumOfExp(logits, n, first, max, 1.0f, shared);
  const double mass =
      inverse == 1.0f ? sum : SumOfExp(logits, n, first, max, inverse, shared);
  const bool is_bad = BlockSum(static_cast<double>(bad), shared) > 0;
  SortDescending(keys);
  WriteKept(keys, kept + chunk * kKept);
  if (ThreadIndex() == 0) {
    const auto nan = static_cast<double>(NotANumber());
    sums[chunk] = {is_bad ? nan : sum, is_bad ? nan : mass,
                   is_bad ? 0.0 : static_cast<double>(max)};
  }
}

// Block (c, r) takes chunk c of row r's n keys.
__global__ void SelectFromKeys(const uint64_t* from, int64_t n,
                               uint64_t* kept) {
  auto* keys = reinterpret_cast<uint64_t*>(DynamicShared());
  const int64_t chunk = int64_t{blockIdx.y} * gridDim.x + blockIdx.x;
  from += blockIdx.y * n;
  const int64_t first = blockIdx.x * kChunk;
  for (int64_t i = ThreadIndex(); i < kChunk; i += kThreads) {
    keys[i] = first + i < n ? from[first + i] : 0;
  }
  SortDescending(keys);
  WriteKept(keys, kept + chunk * kKept);
}

// Merges a row's result in one warp.
__global__ void FinishRow(const uint64_t* kept, const PartialSum* sums,
                          const float* inverse_temperatures, int64_t n_chunks,
                          RowResult* results) {
  const int64_t row = blockIdx.x;
  sums += row * n_chunks;
  const int lane = LaneIndex();
  float max = MinusInfinity();
  for (int64_t c = lane; c < n_chunks; c += kWarpThreads) {
    max = fmaxf(max, static_cast<float>(sums[c].max));
  }
  max = WarpMax(max);
  const auto inverse =
      static_cast<double>(InverseOf(inverse_temperatures, row));
  double sum = 0;
  double mass = 0;
  for (int64_t c = lane; c < n_chunks; c += kWarpThreads) {
    const double below = sums[c].max - static_cast<double>(max);
    sum += sums[c].sum * exp(below);
    mass += sums[c].mass * exp(below * inverse);
  }
  sum = WarpSum(sum);
  mass = WarpSum(mass);
  RowResult& result = results[row];
  if (lane == 0) {
    result.log_sum_exp = static_cast<double>(max) + log(sum);
    result.mass = mass;
  }
  for (int64_t i = lane; i < kKept; i += kWarpThreads) {
    result.keys[i] = kept[row * kKept + i];
  }
}

int64_t Chunks(int64_t n) { return (n + kChunk - 1) / kChunk; }

// Device memory for `n_rows` rows of `n` logits, in this order.
struct Places {
  uint64_t* kept[2];
  PartialSum* sums;
  RowResult* results;
  int64_t row_bytes;
};

Places PlacesOf(std::byte* scratch, int64_t n_rows, int64_t n) {
  const int64_t chunks = Chunks(n);
  const int64_t kept_bytes = chunks * kKept * 8;
  Places places;
  places.row_bytes = 2 * kept_bytes +
                     chunks * static_cast<int64_t>(sizeof(PartialSum)) +
                     static_cast<int64_t>(sizeof(RowResult));
  places.kept[0] = reinterpret_cast<uint64_t*>(scratch);
  places.kept[1] = places.kept[0] + n_rows * chunks * kKept;
  places.sums =
      reinterpret_cast<PartialSum*>(places.kept[1] + n_rows * chunks * kKept);
  places.results = reinterpret_cast<RowResult*>(places.sums + n_rows * chunks);
  return places;
}

// Rows [first, first + n_rows) of `args`.
absl::Status TopKOf(const Context& context, const TopKArgs& args, int64_t first,
                    int64_t n_rows) {
  const Places at = PlacesOf(context.scratch, n_rows, args.n);
  const int64_t n_chunks = Chunks(args.n);
  const float* inverse_temperatures = nullptr;
  if (args.masses != nullptr) {
    ASSIGN_OR_RETURN(
        inverse_temperatures,
        context.staging->PutSpan(std::span<const float>(
            args.inverse_temperatures + first, static_cast<size_t>(n_rows))));
  }
  Launch(SelectFromLogits, {n_chunks, n_rows}, kThreads, kSharedBytes,
         context.stream, args.logits + first * args.n, args.n,
         inverse_temperatures, at.kept[0], at.sums);
  int from = 0;
  for (int64_t lists = n_chunks; lists > 1; lists = Chunks(lists * kKept)) {
    Launch(SelectFromKeys, {Chunks(lists * kKept), n_rows}, kThreads,
           kSharedBytes, context.stream, at.kept[from], lists * kKept,
           at.kept[1 - from]);
    from = 1 - from;
  }
  Launch(FinishRow, {n_rows}, kWarpThreads, 0, context.stream, at.kept[from],
         at.sums, inverse_temperatures, n_chunks, at.results);
  RETURN_IF_ERROR(LaunchStatus());
  RETURN_IF_ERROR(CopyToHost(
      reinterpret_cast<const std::byte*>(at.results), context.results,
      n_rows * static_cast<int64_t>(sizeof(RowResult)), context.stream));
  RETURN_IF_ERROR(WaitForStream(context.stream));
  const auto* results = reinterpret_cast<const RowResult*>(context.results);
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
  constexpr int64_t kMaxGrid = 65'535;  // rows are its second dimension
  const int64_t row_bytes = PlacesOf(nullptr, 0, args.n).row_bytes;
  const int64_t batch = std::min(
      {kScratchBytes / row_bytes,
       kResultBytes / static_cast<int64_t>(sizeof(RowResult)), kMaxGrid});
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
