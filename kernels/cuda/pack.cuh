// Packs activations (packed_row.h): one warp packs a block of 32 values, or
// four blocks, of which a lane has four values.
#ifndef PLIMSOLL_KERNELS_CUDA_PACK_CUH_
#define PLIMSOLL_KERNELS_CUDA_PACK_CUH_

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

// Packs columns [c, c + 4) of a row of `dim` values; lane l of the warp has the
// columns of place l % 8 of a block. All lanes take part; lanes outside of the
// row store nothing. The bits are those of PackBlock.
__device__ inline void PackFour(const float (&x)[4], bool is_in_row,
                                int64_t dim, int64_t c, std::byte* row) {
  // Positive floats sort like their bit patterns; infinity and NaN are the
  // largest.
  constexpr uint32_t kInfinity = 0x7F800000u;
  uint32_t largest = 0;
  for (const float one : x) {
    const uint32_t bits = BitsOfFloat(fabsf(one));
    largest = bits > largest ? bits : largest;
  }
  for (int mask = 4; mask > 0; mask /= 2) {
    const uint32_t other = __shfl_xor_sync(kFullWarp, largest, mask);
    largest = other > largest ? other : largest;
  }
  const bool is_finite = largest < kInfinity;
  float amax = is_finite ? FloatOfBits(largest) : 0.0f;
  if (!(amax >= kMinBlockAmax)) amax = 0;
  const float scale = is_finite ? amax / kActivationMax : NotANumber();
  const float inverse = amax > 0 ? kActivationMax / amax : 0.0f;
  int32_t q[4];
  for (int i = 0; i < 4; ++i) {
    const float rounded = amax > 0 ? rintf(x[i] * inverse) : 0.0f;
    q[i] = static_cast<int32_t>(
        fminf(fmaxf(rounded, -kActivationMax), kActivationMax));
  }
  int32_t sum = q[0] + q[1] + q[2] + q[3];
  // Each lane has one group of the cross products.
  const auto cross =
      static_cast<uint32_t>(q[0] * q[2]) + static_cast<uint32_t>(q[1] * q[3]);
  uint32_t half = cross;
  for (int mask = 1; mask < 8; mask *= 2) {
    sum += __shfl_xor_sync(kFullWarp, sum, mask);
    if (mask < 4) half += __shfl_xor_sync(kFullWarp, half, mask);
  }
  static_assert(kCrossGroups == 5);
  const uint32_t fifth = __shfl_xor_sync(kFullWarp, cross, 4);
  if (!is_in_row) return;
  const auto pair = [](int32_t first, int32_t second) {
    return (static_cast<uint32_t>(first) & 0xFFFFu) |
           (static_cast<uint32_t>(second) << 16);
  };
  *reinterpret_cast<uint2*>(row + c * 2) = {pair(q[0], q[1]), pair(q[2], q[3])};
  if (LaneIndex() % 8 != 0) return;
  const int64_t block = c / kActivationBlock;
  *reinterpret_cast<float*>(row + PackedScalesOffset(dim) + block * 4) = scale;
  *reinterpret_cast<float*>(row + PackedSumsOffset(dim) + block * 4) =
      scale * static_cast<float>(sum);
  *reinterpret_cast<uint2*>(row + PackedCrossOffset(dim) + block * 8) = {
      half, half + fifth};
}

// True if all sizes are multiples of four floats, so that lanes can read four
// at once.
template <class... Sizes>
bool AreFours(Sizes... sizes) {
  return ((static_cast<uint64_t>(sizes) % 4 == 0) && ...);
}
inline bool IsAligned16(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0;
}

__device__ inline void LoadFour(const float* from, float (&to)[4]) {
  const float4 four = *reinterpret_cast<const float4*>(from);
  to[0] = four.x;
  to[1] = four.y;
  to[2] = four.z;
  to[3] = four.w;
}
__device__ inline void StoreFour(const float (&x)[4], float* to) {
  *reinterpret_cast<float4*>(to) = {x[0], x[1], x[2], x[3]};
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_PACK_CUH_
