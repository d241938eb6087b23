// The gated half of a feed-forward network as one kernel.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_GATED_MAT_MUL_H_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_GATED_MAT_MUL_H_

#include <cstddef>

#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// True for what GatedMatMul can compute.
bool FusesGatedMatMul(const Context& context, const GatedMatMulArgs& args);

// Returns where the packed result lies.
const std::byte* GatedMatMul(const Context& context,
                             const GatedMatMulArgs& args);

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_GATED_MAT_MUL_H_
