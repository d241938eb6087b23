// Hadamard transforms of heads, in shared memory or in registers.
#ifndef PLIMSOLL_KERNELS_CUDA_ATTENTION_TRANSFORM_CUH_
#define PLIMSOLL_KERNELS_CUDA_ATTENTION_TRANSFORM_CUH_

#include "kernels/cuda/numeric.cuh"
#include "kernels/hadamard.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Transforms every `width` elements of x[0, n). All lanes of the warp take
// part; lane l has written, and reads afterwards, elements l + 32 i.
__device__ inline void TransformEach(float* x, int64_t n, int64_t width) {
  const float scale = 1.0f / sqrtf(static_cast<float>(width));
  for (int64_t distance = 1; distance < width; distance *= 2) {
    __syncwarp();
    for (int64_t pair = LaneIndex(); pair < n / 2; pair += kWarpThreads) {
      const int64_t first = pair / distance * distance * 2 + pair % distance;
      const float a = x[first];
      const float b = x[first + distance];
      x[first] = a + b;
      x[first + distance] = a - b;
    }
  }
  __syncwarp();
  for (int64_t c = LaneIndex(); c < n; c += kWarpThreads) x[c] *= scale;
}

__device__ inline void TransformHead(float* x, int64_t head_dim) {
  TransformEach(x, head_dim, HadamardWidth(head_dim));
}

// Transforms a head of kPieces * 32 elements, a power of two, of which lane l
// has elements l + 32 i in x[i]. The operations are those of TransformHead. All
// lanes of the warp take part.
template <int kPieces>
__device__ void TransformPieces(float (&x)[kPieces]) {
  static_assert((kPieces & (kPieces - 1)) == 0);
#pragma unroll
  for (int distance = 1; distance < kWarpThreads; distance *= 2) {
    const bool is_second = (LaneIndex() & distance) != 0;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const float other = __shfl_xor_sync(kFullWarp, x[i], distance);
      x[i] = is_second ? other - x[i] : x[i] + other;
    }
  }
#pragma unroll
  for (int distance = 1; distance < kPieces; distance *= 2) {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      if ((i & distance) != 0) continue;
      const float a = x[i];
      const float b = x[i + distance];
      x[i] = a + b;
      x[i + distance] = a - b;
    }
  }
  const float scale = 1.0f / sqrtf(static_cast<float>(kPieces * kWarpThreads));
#pragma unroll
  for (int i = 0; i < kPieces; ++i) x[i] *= scale;
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_ATTENTION_TRANSFORM_CUH_
