// Rounds values to a cache's type (kv_row.h), by a warp or by a thread.
#ifndef PLIMSOLL_KERNELS_CUDA_ATTENTION_KV_STORE_CUH_
#define PLIMSOLL_KERNELS_CUDA_ATTENTION_KV_STORE_CUH_

#include "kernels/cuda/numeric.cuh"
#include "kernels/quant/kv_row.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

static_assert(kQ80Elements == kWarpThreads);

// Stores one block of a row; this lane has its value `x`. All lanes of the warp
// take part. Blocks begin at even bytes.
__device__ inline void StoreQ80(float x, std::byte* out) {
  const bool is_finite = WarpSum(IsFinite(x) ? 0 : 1) == 0;
  const float amax = WarpMax(fabsf(x));
  const float d = is_finite ? amax / kQ80Max : NotANumber();
  const uint16_t scale = HalfOfFloat(d);
  int8_t q = 0;
  if (scale != 0 && is_finite) {
    q = static_cast<int8_t>(roundf(x * (1.0f / d)));
  }
  const int lane = LaneIndex();
  if (lane == 0) *reinterpret_cast<uint16_t*>(out) = scale;
  reinterpret_cast<int8_t*>(out)[2 + lane] = q;
}

// Stores element `c` of a row of a float type.
template <DType kType>
__device__ void StoreFloat(float x, int64_t c, std::byte* out) {
  static_assert(IsFloatType(kType));
  if constexpr (kType == DType::kF32) {
    reinterpret_cast<float*>(out)[c] = x;
  } else if constexpr (kType == DType::kF16) {
    reinterpret_cast<uint16_t*>(out)[c] = HalfOfFloat(x);
  } else {
    reinterpret_cast<uint16_t*>(out)[c] = BfloatOfFloat(x);
  }
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_ATTENTION_KV_STORE_CUH_
