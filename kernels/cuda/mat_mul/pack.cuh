// Packs activations (packed_row.h): one warp packs a block of 32 values.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_PACK_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_PACK_CUH_

#include "kernels/cuda/numeric.cuh"
#include "kernels/quant/packed_row.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

static_assert(kActivationBlock == kWarpThreads);

// Packs block `block` of a row of `dim` values; this lane has its value `x`.
// All lanes of the warp take part. The bits are those of the reference.
__device__ inline void PackBlock(float x, int64_t dim, int64_t block,
                                 std::byte* row) {
  const bool is_finite = WarpSum(IsFinite(x) ? 0 : 1) == 0;
  // The reduction drops NaN, because fmaxf does.
  float amax = WarpMax(fabsf(x));
  if (!(amax >= kMinBlockAmax) || !is_finite) amax = 0;
  const float scale = is_finite ? amax / kActivationMax : NotANumber();
  const float inverse = amax > 0 ? kActivationMax / amax : 0.0f;
  float q = amax > 0 ? rintf(x * inverse) : 0.0f;
  q = fminf(fmaxf(q, -kActivationMax), kActivationMax);
  const auto value = static_cast<int16_t>(q);
  const int32_t sum = WarpSum(static_cast<int32_t>(value));
  const int lane = LaneIndex();
  // Every other pair of lanes computes a group's cross products.
  const int32_t other = __shfl_xor_sync(kFullWarp, int32_t{value}, 2);
  const auto cross = static_cast<uint32_t>(value * other);
  const bool is_kept = lane % 4 < 2 && lane < 4 * kCrossGroups;
  const uint32_t half = WarpSum(is_kept && lane < 16 ? cross : 0u);
  const uint32_t all = half + WarpSum(is_kept && lane >= 16 ? cross : 0u);
  reinterpret_cast<int16_t*>(row)[block * kActivationBlock + lane] = value;
  if (lane == 0) {
    *reinterpret_cast<float*>(row + PackedScalesOffset(dim) + block * 4) =
        scale;
    *reinterpret_cast<float*>(row + PackedSumsOffset(dim) + block * 4) =
        scale * static_cast<float>(sum);
    auto* kept =
        reinterpret_cast<uint32_t*>(row + PackedCrossOffset(dim)) + block * 2;
    kept[0] = half;
    kept[1] = all;
  }
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_PACK_CUH_
