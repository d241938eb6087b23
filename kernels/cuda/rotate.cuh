// The rotation of one pair of a head's elements.
#ifndef PLIMSOLL_KERNELS_CUDA_ROTATE_CUH_
#define PLIMSOLL_KERNELS_CUDA_ROTATE_CUH_

#include "kernels/backend.h"
#include "kernels/cuda/numeric.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// The elements of a pair in its head.
struct PairPlace {
  int64_t first;
  int64_t second;

  // Pair `pair` of `n_pairs`.
  __device__ PairPlace(RopeStyle style, int64_t pair, int64_t n_pairs) {
    const bool is_neox = style == RopeStyle::kNeox;
    first = is_neox ? pair : 2 * pair;
    second = is_neox ? pair + n_pairs : 2 * pair + 1;
  }
};

// Rotates a pair of the head at `x` by the pair's `angle` (cos, sin) and stores
// it in the head at `out`, which may be `x`.
__device__ inline void RotatePair(const float* x, const float* angle,
                                  const PairPlace& at, float* out) {
  const float a = x[at.first];
  const float b = x[at.second];
  out[at.first] = a * angle[0] - b * angle[1];
  out[at.second] = a * angle[1] + b * angle[0];
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_ROTATE_CUH_
