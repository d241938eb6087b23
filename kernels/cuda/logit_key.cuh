// A logit and its id as one number. Its order is the order of draws.
#ifndef PLIMSOLL_KERNELS_CUDA_LOGIT_KEY_CUH_
#define PLIMSOLL_KERNELS_CUDA_LOGIT_KEY_CUH_

#include <cstring>

#include "kernels/cuda/numeric.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Keys are larger for larger logits, and for lower ids among equal logits. A
// NaN logit counts as minus infinity. 0 is below all keys.
__device__ inline uint64_t KeyOf(float logit, int64_t id) {
  if (!(logit == logit)) logit = MinusInfinity();
  const uint32_t bits = BitsOfFloat(logit == 0.0f ? 0.0f : logit);
  const uint32_t ordered =
      (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return (static_cast<uint64_t>(ordered) << 32) |
         (0xFFFFFFFFu - static_cast<uint32_t>(id));
}

// The logit of a key; `ordered` is the key's upper 32 bits.
__host__ __device__ inline float LogitOf(uint32_t ordered) {
  const uint32_t bits =
      (ordered & 0x80000000u) != 0 ? ordered & 0x7FFFFFFFu : ~ordered;
  float logit;
  std::memcpy(&logit, &bits, sizeof(logit));
  return logit;
}

__host__ __device__ inline int32_t IdOf(uint64_t key) {
  return static_cast<int32_t>(0xFFFFFFFFu - static_cast<uint32_t>(key));
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_LOGIT_KEY_CUH_
