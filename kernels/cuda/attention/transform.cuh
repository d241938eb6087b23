// The Hadamard transform of a head in shared memory.
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

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_ATTENTION_TRANSFORM_CUH_
