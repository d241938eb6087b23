// The activation of a gate, multiplied by `up`.
#ifndef PLIMSOLL_KERNELS_CUDA_GATED_CUH_
#define PLIMSOLL_KERNELS_CUDA_GATED_CUH_

#include "kernels/backend.h"
#include "kernels/cuda/numeric.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// A comparison with NaN is false, so NaN stays.
__device__ inline float ClampedSwish(float gate, float up) {
  constexpr float kLimit = kSwishLimit;
  const float x = gate > kLimit ? kLimit : gate;
  float factor = up > kLimit ? kLimit : up;
  if (factor < -kLimit) factor = -kLimit;
  return x / (1.0f + expf(-kSwishSlope * x)) * (factor + 1.0f);
}

__device__ inline float TanhGelu(float x) {
  // 1 / (1 + exp(-2u)) is (1 + tanh(u)) / 2 without cancellation.
  constexpr float kTwoSqrtTwoOverPi = 1.5957691216057308f;
  const float u = kTwoSqrtTwoOverPi * (x + 0.044715f * x * x * x);
  return x / (1.0f + expf(-u));
}

// The activation of `gate`, times `up`.
__device__ inline float Gated(float gate, float up, Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return gate / (1.0f + expf(-gate)) * up;
    case Activation::kGeluTanh:
      return TanhGelu(gate) * up;
    case Activation::kRelu:
      return (gate < 0 ? 0 : gate) * up;
    case Activation::kSigmoid:
      return up / (1.0f + expf(-gate));
    case Activation::kClampedSwish:
      break;
  }
  return ClampedSwish(gate, up);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_GATED_CUH_
