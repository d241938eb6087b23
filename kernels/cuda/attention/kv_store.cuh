// Rounds values to a cache's type (kv_row.h), by a warp or by a thread.
#ifndef PLIMSOLL_KERNELS_CUDA_ATTENTION_KV_STORE_CUH_
#define PLIMSOLL_KERNELS_CUDA_ATTENTION_KV_STORE_CUH_

#include "kernels/cuda/numeric.cuh"
#include "kernels/quant/kv_row.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

static_assert(kKvBlock == kWarpThreads);

// In what follows this lane has the value `x` of a block, and all lanes of the
// warp take part. Blocks begin at even bytes.

// The extremes of a block. Every lane gets them.
struct Extent {
  float min;
  float max;
  bool is_finite;
};

__device__ inline Extent ExtentOf(float x) {
  return {-WarpMax(-x), WarpMax(x), WarpSum(IsFinite(x) ? 0 : 1) == 0};
}

// Stores the block's scale `d`, or NaN. Returns whether levels are not zero.
__device__ inline bool StoreScale(float d, bool is_finite, std::byte* out) {
  const uint16_t scale = HalfOfFloat(is_finite ? d : NotANumber());
  if (LaneIndex() == 0) *reinterpret_cast<uint16_t*>(out) = scale;
  return is_finite && (scale & 0x7FFFu) != 0;
}

// Stores the low four bits of the lanes' levels.
__device__ inline void StoreNibbles(uint32_t level, std::byte* out) {
  constexpr int kHalf = kKvBlock / 2;
  const uint32_t other = __shfl_xor_sync(kFullWarp, level, kHalf);
  const int lane = LaneIndex();
  if (lane >= kHalf) return;
  reinterpret_cast<uint8_t*>(out)[lane] =
      static_cast<uint8_t>((level & 15u) | ((other & 15u) << 4));
}

// `extent` belongs to the block.
template <DType kType>
__device__ void StoreBlock(float x, const Extent& extent, std::byte* out) {
  if constexpr (kType == DType::kQ8_0) {
    const float d = fabsf(fmaxf(extent.max, -extent.min)) / kQ80Max;
    int8_t level = 0;
    if (StoreScale(d, extent.is_finite, out)) {
      level = static_cast<int8_t>(roundf(x * (1.0f / d)));
    }
    reinterpret_cast<int8_t*>(out)[2 + LaneIndex()] = level;
  } else if constexpr (kType == DType::kQ4_0) {
    const float d =
        (extent.max >= -extent.min ? extent.max : extent.min) / -8.0f;
    uint32_t level = 0;
    if (StoreScale(d, extent.is_finite, out)) {
      level =
          static_cast<uint32_t>(fminf(floorf(x * (1.0f / d) + 8.5f), 15.0f));
    }
    StoreNibbles(level, out + 2);
  } else {
    static_assert(kType == DType::kQ5_1);
    const float d = (extent.max - extent.min) / 31.0f;
    uint32_t level = 0;
    if (StoreScale(d, extent.is_finite, out)) {
      level =
          static_cast<uint32_t>(floorf((x - extent.min) * (1.0f / d) + 0.5f));
    }
    const uint32_t fifths = WarpSum((level / 16) << LaneIndex());
    if (LaneIndex() == 0) {
      auto* const head = reinterpret_cast<uint16_t*>(out);
      head[1] = HalfOfFloat(extent.is_finite ? extent.min : 0.0f);
      head[2] = LowHalf(fifths);
      head[3] = HighHalf(fifths);
    }
    StoreNibbles(level, out + 8);
  }
}

// Stores element `c` of a row. If the type has blocks, lane i of the warp has
// element i of a block, and all lanes take part.
template <DType kType>
__device__ void StoreElement(float x, int64_t c, std::byte* out) {
  if constexpr (kType == DType::kF32) {
    reinterpret_cast<float*>(out)[c] = x;
  } else if constexpr (kType == DType::kF16) {
    reinterpret_cast<uint16_t*>(out)[c] = HalfOfFloat(x);
  } else if constexpr (kType == DType::kBF16) {
    reinterpret_cast<uint16_t*>(out)[c] = BfloatOfFloat(x);
  } else {
    StoreBlock<kType>(x, ExtentOf(x), out + KvBytes(kType, c));
  }
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_ATTENTION_KV_STORE_CUH_
