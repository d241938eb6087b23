// The rotation of one pair of a head's elements.
#ifndef PLIMSOLL_KERNELS_CUDA_ROTATE_CUH_
#define PLIMSOLL_KERNELS_CUDA_ROTATE_CUH_

#include "kernels/backend.h"
#include "kernels/cuda/numeric.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Rotates pair `pair` of `n_pairs` of the head at `x` by the row's `angles`
// ([pair, 2]: cos, sin) and stores it in the head at `out`, which may be `x`.
__device__ inline void RotatePair(const float* x, const float* angles,
                                  int64_t pair, int64_t n_pairs,
                                  RopeStyle style, float* out) {
  const bool is_neox = style == RopeStyle::kNeox;
  const int64_t first = is_neox ? pair : 2 * pair;
  const int64_t second = is_neox ? pair + n_pairs : 2 * pair + 1;
  const float* angle = angles + 2 * pair;
  const float a = x[first];
  const float b = x[second];
  out[first] = a * angle[0] - b * angle[1];
  out[second] = a * angle[1] + b * angle[0];
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_ROTATE_CUH_
