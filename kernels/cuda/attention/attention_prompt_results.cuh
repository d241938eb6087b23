// Merges the sums of attention of prompts (attention_prompt.cu): blocks that
// share the keys of a row merge their sums, and the last block writes the row.
#ifndef PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_PROMPT_RESULTS_CUH_
#define PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_PROMPT_RESULTS_CUH_

#include "kernels/cuda/attention/attention_prompt_tiles.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Results of slices in the scratch memory, in the order of threads: 16 bytes of
// each thread follow one another. First come the softmaxes, then the sums.
struct Slices {
  uint32_t* counts;  // ended slices of each block
  uint4* results;
};

// The slices of one block of outputs.
struct BlockSlices {
  const Slices& all;
  int64_t block;
  int n_slices;

  template <class S>
  __device__ uint4* At(int slice, int four) const {
    constexpr int kFours = S::kSums / 4 + 1;
    return all.results +
           ((block * n_slices + slice) * kFours + four) * S::kThreads +
           ThreadIndex();
  }
};

// Stores this thread's result of a slice.
template <class S>
__device__ __forceinline__ void StoreSlice(const BlockSlices& slices, int slice,
                                           const PromptSoftmax& state,
                                           const float* sums) {
  *slices.At<S>(slice, 0) = {
      BitsOfFloat(state.max[0]), BitsOfFloat(state.max[1]),
      BitsOfFloat(state.total[0]), BitsOfFloat(state.total[1])};
#pragma unroll
  for (int i = 0; i < S::kSums / 4; ++i) {
    const float* four = sums + 4 * i;
    *slices.At<S>(slice, i + 1) = {BitsOfFloat(four[0]), BitsOfFloat(four[1]),
                                   BitsOfFloat(four[2]), BitsOfFloat(four[3])};
  }
}

// Counts a slice that has been stored. Returns true in the block that ends
// last.
template <class S>
__device__ __forceinline__ bool IsLastSlice(const BlockSlices& slices) {
  __threadfence();
  __syncthreads();
  auto* is_last = reinterpret_cast<uint32_t*>(DynamicShared() + S::kPowersAt);
  if (ThreadIndex() == 0) {
    const uint32_t n_before = CountAtomically(slices.all.counts + slices.block);
    *is_last = n_before + 1 == static_cast<uint32_t>(slices.n_slices) ? 1 : 0;
  }
  __syncthreads();
  if (*is_last == 0) return false;
  __threadfence();
  return true;
}

// Sets `state` to the softmax of all slices; `factors` gets the factors for the
// sums of each slice.
template <class S>
__device__ __forceinline__ void MergeStates(const BlockSlices& slices,
                                            PromptSoftmax& state,
                                            float factors[kMaxSlices][2]) {
  uint4 states[kMaxSlices];
  float max[2] = {MinusInfinity(), MinusInfinity()};
#pragma unroll
  for (int p = 0; p < kMaxSlices; ++p) {
    if (p >= slices.n_slices) break;
    states[p] = *slices.At<S>(p, 0);
    max[0] = fmaxf(max[0], FloatOfBits(states[p].x));
    max[1] = fmaxf(max[1], FloatOfBits(states[p].y));
  }
  state = {{max[0], max[1]}, {0, 0}};
#pragma unroll
  for (int p = 0; p < kMaxSlices; ++p) {
    if (p >= slices.n_slices) break;
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
}

// Sets `sums` to the sums of all slices, each times its factors.
template <class S>
__device__ __forceinline__ void MergeSums(const BlockSlices& slices,
                                          const float factors[kMaxSlices][2],
                                          float* sums) {
#pragma unroll
  for (int i = 0; i < S::kSums / 4; ++i) {
    float four[4] = {};
#pragma unroll
    for (int p = 0; p < kMaxSlices; ++p) {
      if (p >= slices.n_slices) break;
      const uint4 stored = *slices.At<S>(p, i + 1);
      four[0] += FloatOfBits(stored.x) * factors[p][0];
      four[1] += FloatOfBits(stored.y) * factors[p][0];
      four[2] += FloatOfBits(stored.z) * factors[p][1];
      four[3] += FloatOfBits(stored.w) * factors[p][1];
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[4 * i + e] = four[e];
  }
}

// Stores a slice's result. Returns true in the block that ends last, which then
// has the merged result of all slices.
template <class S>
__device__ bool MergeSlices(const BlockSlices& slices, int slice,
                            bool is_active, PromptSoftmax& state, float* sums) {
  if (is_active) StoreSlice<S>(slices, slice, state, sums);
  if (!IsLastSlice<S>(slices)) return false;
  if (!is_active) return true;
  float factors[kMaxSlices][2];
  MergeStates<S>(slices, state, factors);
  MergeSums<S>(slices, factors, sums);
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
    // A sink takes part once. A sink far above the scores makes the total
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

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_ATTENTION_ATTENTION_PROMPT_RESULTS_CUH_
