// Routes rows to experts. A warp takes a row: it keeps the row's scores in
// shared memory and takes the best one again and again. One block then gives
// all rows their places.
#include "kernels/cuda/numeric.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr float kLargest = 3.40282347e38f;
constexpr int kPlaceThreads = 256;

// A row's scores, and what of them decides the choice.
struct RowScores {
  float* scores;     // [n]
  float* keys;       // [n]; minus infinity for experts that are taken
  float* qualities;  // [n_groups]
  int n;
};

__device__ inline void MakeSoftmax(float* values, int n) {
  float max = MinusInfinity();
  for (int i = LaneIndex(); i < n; i += kWarpThreads) {
    max = fmaxf(max, values[i]);
  }
  max = WarpMax(max);
  float sum = 0;
  for (int i = LaneIndex(); i < n; i += kWarpThreads) {
    values[i] = expf(values[i] - max);
    sum += values[i];
  }
  sum = WarpSum(sum);
  for (int i = LaneIndex(); i < n; i += kWarpThreads) values[i] /= sum;
}

// Sets the keys. NaN counts as the smallest number.
__device__ inline void MakeKeys(const RowScores& row, const float* bias) {
  for (int i = LaneIndex(); i < row.n; i += kWarpThreads) {
    const float key = row.scores[i] + (bias == nullptr ? 0.0f : bias[i]);
    row.keys[i] = key > -kLargest ? fminf(key, kLargest) : -kLargest;
  }
}

// Takes the experts of all but the best groups. One lane does it all: few
// models have groups.
__device__ inline void DropGroups(const RowScores& row,
                                  const Routing& routing) {
  const auto n_groups = static_cast<int>(routing.n_groups);
  const int size = row.n / n_groups;
  const bool has_second = size > 1 && !routing.groups_by_best;
  for (int g = 0; g < n_groups; ++g) {
    float first = -kLargest;
    float second = has_second ? -kLargest : 0.0f;
    for (int i = g * size; i < (g + 1) * size; ++i) {
      if (has_second) second = fmaxf(second, fminf(first, row.keys[i]));
      first = fmaxf(first, row.keys[i]);
    }
    // Halves, as a sum may be too large.
    row.qualities[g] = 0.5f * first + 0.5f * second;
  }
  for (int64_t n = n_groups; n > routing.n_groups_used; --n) {
    int worst = 0;
    // The last one of equals goes first.
    for (int g = 1; g < n_groups; ++g) {
      if (row.qualities[g] <= row.qualities[worst]) worst = g;
    }
    row.qualities[worst] = -MinusInfinity();
    for (int i = worst * size; i < (worst + 1) * size; ++i) {
      row.keys[i] = MinusInfinity();
    }
  }
}

// Takes the expert with the largest key, the first one of equals.
__device__ inline int TakeBest(const RowScores& row) {
  float best = MinusInfinity();
  int expert = row.n;
  for (int i = LaneIndex(); i < row.n; i += kWarpThreads) {
    if (row.keys[i] <= best) continue;
    best = row.keys[i];
    expert = i;
  }
  for (int mask = kWarpThreads / 2; mask > 0; mask /= 2) {
    const float other_best = __shfl_xor_sync(kFullWarp, best, mask);
    const int other = __shfl_xor_sync(kFullWarp, expert, mask);
    if (other_best > best || (other_best == best && other < expert)) {
      best = other_best;
      expert = other;
    }
  }
  if (LaneIndex() == 0) row.keys[expert] = MinusInfinity();
  __syncwarp();
  return expert;
}

// Block r is one warp, which routes row r.
__global__ void RouteRows(RouteExpertsArgs args) {
  WaitForKernelsBefore();
  const ExpertRows& to = args.to;
  const Routing& routing = args.routing;
  const int64_t r = blockIdx.x;
  const auto n = static_cast<int>(to.n_experts);
  const auto n_used = static_cast<int>(to.n_used);
  auto* const shared = reinterpret_cast<float*>(DynamicShared());
  const RowScores row = {shared, shared + n, shared + 2 * n, n};
  for (int i = LaneIndex(); i < n; i += kWarpThreads) {
    const float logit = args.logits[r * n + i];
    const bool is_sigmoid = routing.gate == RouterGate::kSigmoid;
    row.scores[i] = is_sigmoid ? 1.0f / (1.0f + expf(-logit)) : logit;
  }
  if (routing.gate == RouterGate::kSoftmax) MakeSoftmax(row.scores, n);
  MakeKeys(row, args.choice_bias);
  __syncwarp();
  if (routing.n_groups_used < routing.n_groups && LaneIndex() == 0) {
    DropGroups(row, routing);
  }
  __syncwarp();
  int32_t* const experts = to.experts + r * n_used;
  float* const weights = to.weights + r * n_used;
  for (int i = 0; i < n_used; ++i) {
    const int expert = TakeBest(row);
    if (LaneIndex() != 0) continue;
    experts[i] = expert;
    weights[i] = row.scores[expert];
  }
  __syncwarp();
  if (routing.gate == RouterGate::kSoftmaxOfChosen) {
    MakeSoftmax(weights, n_used);
    __syncwarp();
  }
  if (LaneIndex() != 0) return;
  float divisor = 1;
  if (routing.is_normalized) {
    float sum = 0;
    for (int i = 0; i < n_used; ++i) sum += weights[i];
    // A sum that is not a number stays.
    divisor = sum < kLeastWeightSum ? kLeastWeightSum : sum;
  }
  for (int i = 0; i < n_used; ++i) {
    weights[i] = weights[i] / divisor * routing.scale;
  }
}

// Each thread gives places to the rows of some experts.
__global__ void PlaceRows(ExpertRows to) {
  WaitForKernelsBefore();
  auto* const ends = reinterpret_cast<int32_t*>(DynamicShared());
  const auto n_experts = static_cast<int>(to.n_experts);
  const auto n = static_cast<int>(to.NumPlaces());
  for (int e = ThreadIndex(); e < n_experts; e += kPlaceThreads) {
    int32_t count = 0;
    for (int i = 0; i < n; ++i) count += to.experts[i] == e ? 1 : 0;
    ends[e] = count;
  }
  __syncthreads();
  if (ThreadIndex() == 0) {
    for (int e = 1; e < n_experts; ++e) ends[e] += ends[e - 1];
    to.begins[n_experts] = n;
  }
  __syncthreads();
  for (int e = ThreadIndex(); e < n_experts; e += kPlaceThreads) {
    int32_t place = e == 0 ? 0 : ends[e - 1];
    to.begins[e] = place;
    for (int i = 0; place < ends[e]; ++i) {
      if (to.experts[i] != e) continue;
      to.places[i] = place;
      to.rows[place++] = i / static_cast<int>(to.n_used);
    }
  }
}

}  // namespace

void RouteExperts(const Context& context, const RouteExpertsArgs& args) {
  const ExpertRows& to = args.to;
  const int64_t shared = (2 * to.n_experts + args.routing.n_groups) *
                         static_cast<int64_t>(sizeof(float));
  static_assert(3 * kMaxExperts * int64_t{sizeof(float)} <=
                kUnaskedSharedBytes);
  Launch(RouteRows, {to.n_rows}, kWarpThreads, shared, context.queue, args);
  Launch(PlaceRows, {to.n_rows > 0 ? 1 : 0}, kPlaceThreads,
         to.n_experts * static_cast<int64_t>(sizeof(int32_t)), context.queue,
         to);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
