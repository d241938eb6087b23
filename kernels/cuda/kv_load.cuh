// Reading keys and values: a lane's elements of one head of a stored row.
#ifndef PLIMSOLL_KERNELS_CUDA_KV_LOAD_CUH_
#define PLIMSOLL_KERNELS_CUDA_KV_LOAD_CUH_

#include "kernels/cuda/numeric.cuh"
#include "kernels/kv_row.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Calls `function` with a KV type as a constant; the same for all threads.
template <class Function>
__device__ void WithKvType(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::kF32:
      return function(TypeConstant<DType::kF32>{});
    case DType::kF16:
      return function(TypeConstant<DType::kF16>{});
    case DType::kBF16:
      return function(TypeConstant<DType::kBF16>{});
    default:
      return function(TypeConstant<DType::kQ8_0>{});
  }
}

// A word of keys or values, which a kernel before may have written: no __ldg
// (simt.cuh). That it is no shared memory the compiler cannot see.
template <class T>
__device__ T LoadWord(const T* at) {
#ifndef PLIMSOLL_CUDA_EMULATED
  __builtin_assume(__isGlobal(at));
#endif
  return *at;
}

// Elements [at, at + 8) of a row; `at` is a multiple of 8. Rows of float types
// begin at multiples of 16 bytes, those of Q8_0 at even ones.
template <DType kType>
__device__ void LoadEight(const std::byte* row, int64_t at, float* out) {
  if constexpr (kType == DType::kF32) {
    for (int i = 0; i < 2; ++i) {
      const auto four =
          LoadWord(reinterpret_cast<const float4*>(row + at * 4) + i);
      out[4 * i] = four.x;
      out[4 * i + 1] = four.y;
      out[4 * i + 2] = four.z;
      out[4 * i + 3] = four.w;
    }
  } else if constexpr (kType == DType::kQ8_0) {
    const std::byte* block = row + at / kQ80Elements * kQ80Bytes;
    const float d =
        FloatOfHalf(LoadWord(reinterpret_cast<const uint16_t*>(block)));
    const auto* pairs =
        reinterpret_cast<const uint16_t*>(block + 2 + at % kQ80Elements);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t pair = LoadWord(pairs + i);
      out[2 * i] = d * static_cast<float>(static_cast<int8_t>(pair & 0xFFu));
      out[2 * i + 1] = d * static_cast<float>(static_cast<int8_t>(pair >> 8));
    }
  } else {
    FloatsOf<kType>(LoadWord(reinterpret_cast<const uint4*>(row + at * 2)),
                    out);
  }
}

// This lane's kChunks * 8 elements of head `kv_head` of a row: those at
// 8 * (lane % kLanes) and every 8 * kLanes further. Zeros past the end of the
// head, and of a row that is not to be read.
template <DType kType, int kLanes, int kChunks>
__device__ void LoadHead(const std::byte* row, bool is_read, int64_t kv_head,
                         int64_t head_dim, float* out) {
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int64_t at = LaneIndex() % kLanes * 8 + c * kLanes * 8;
    if (is_read && at < head_dim) {
      LoadEight<kType>(row, kv_head * head_dim + at, out + c * 8);
    } else {
      for (int i = 0; i < 8; ++i) out[c * 8 + i] = 0;
    }
  }
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_KV_LOAD_CUH_
