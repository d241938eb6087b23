// Reading keys and values: a lane's elements of one head of a stored row.
#ifndef PLIMSOLL_KERNELS_CUDA_ATTENTION_KV_LOAD_CUH_
#define PLIMSOLL_KERNELS_CUDA_ATTENTION_KV_LOAD_CUH_

#include "kernels/cuda/numeric.cuh"
#include "kernels/quant/kv_row.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Calls `function` with the KV type as a constant. All threads pass the same
// type.
template <class Function>
__device__ void WithKvType(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::kF32:
      return function(TypeConstant<DType::kF32>{});
    case DType::kF16:
      return function(TypeConstant<DType::kF16>{});
    case DType::kBF16:
      return function(TypeConstant<DType::kBF16>{});
    case DType::kQ5_1:
      return function(TypeConstant<DType::kQ5_1>{});
    case DType::kQ4_0:
      return function(TypeConstant<DType::kQ4_0>{});
    default:
      return function(TypeConstant<DType::kQ8_0>{});
  }
}

// Loads a word of keys or values. An earlier kernel may have written it, so
// __ldg is not allowed (simt.cuh). The compiler cannot see that the address is
// not in shared memory.
template <class T>
__device__ T LoadWord(const T* at) {
#ifndef PLIMSOLL_CUDA_EMULATED
  __builtin_assume(__isGlobal(at));
#endif
  return *at;
}

// Eight elements of a row in their stored form. Loading and converting are
// separate, so that a warp has many loads under way before it waits for the
// first.
template <DType kType>
struct StoredEight {
  uint4 words[kType == DType::kF32 ? 2 : 1];
};
template <>
struct StoredEight<DType::kQ8_0> {
  uint16_t d;
  uint16_t pairs[4];
};
template <>
struct StoredEight<DType::kQ4_0> {
  uint16_t d;
  uint16_t pairs[4];  // pairs of bytes; the nibbles at `shift` are the elements
  uint16_t shift;
};
template <>
struct StoredEight<DType::kQ5_1> {
  uint16_t d;
  uint16_t m;
  uint16_t pairs[4];
  uint16_t shift;
  uint16_t fifths;  // bit i belongs to element i
};

// Loads elements [at, at + 8) of a row; `at` is a multiple of 8. Rows of float
// types begin at multiples of 16 bytes, others at even bytes.
template <DType kType>
__device__ StoredEight<kType> LoadStored(const std::byte* row, int64_t at) {
  StoredEight<kType> stored;
  if constexpr (!IsFloatType(kType)) {
    const std::byte* block = row + KvBytes(kType, at);
    const auto* head = reinterpret_cast<const uint16_t*>(block);
    stored.d = LoadWord(head);
    int64_t place = 2 + at % kKvBlock;
    if constexpr (IsNibbleType(kType)) {
      place = 2 + at % (kKvBlock / 2);
      stored.shift = at % kKvBlock < kKvBlock / 2 ? 0 : 4;
    }
    if constexpr (kType == DType::kQ5_1) {
      place += 6;
      stored.m = LoadWord(head + 1);
      const uint16_t fifths = LoadWord(head + 2 + at % kKvBlock / 16);
      stored.fifths = static_cast<uint16_t>(fifths >> at % 16);
    }
    const auto* pairs = reinterpret_cast<const uint16_t*>(block + place);
#pragma unroll
    for (int i = 0; i < 4; ++i) stored.pairs[i] = LoadWord(pairs + i);
  } else {
    constexpr int64_t kBytes = kType == DType::kF32 ? 4 : 2;
    const auto* words = reinterpret_cast<const uint4*>(row + at * kBytes);
    stored.words[0] = LoadWord(words);
    if constexpr (kType == DType::kF32) stored.words[1] = LoadWord(words + 1);
  }
  return stored;
}

template <DType kType>
__device__ void FloatsOf(const StoredEight<kType>& stored, float* out) {
  if constexpr (kType == DType::kF32) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      out[4 * i] = FloatOfBits(stored.words[i].x);
      out[4 * i + 1] = FloatOfBits(stored.words[i].y);
      out[4 * i + 2] = FloatOfBits(stored.words[i].z);
      out[4 * i + 3] = FloatOfBits(stored.words[i].w);
    }
  } else if constexpr (kType == DType::kQ8_0) {
    const float d = FloatOfHalf(stored.d);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t pair = stored.pairs[i];
      out[2 * i] = d * static_cast<float>(static_cast<int8_t>(pair & 0xFFu));
      out[2 * i + 1] = d * static_cast<float>(static_cast<int8_t>(pair >> 8));
    }
  } else if constexpr (IsNibbleType(kType)) {
    const float d = FloatOfHalf(stored.d);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t nibble =
          (stored.pairs[i / 2] >> (i % 2 * 8 + stored.shift)) & 15u;
      if constexpr (kType == DType::kQ5_1) {
        const uint32_t level = nibble | (((stored.fifths >> i) & 1u) << 4);
        out[i] = d * static_cast<float>(level) + FloatOfHalf(stored.m);
      } else {
        out[i] = d * (static_cast<float>(nibble) - 8.0f);
      }
    }
  } else {
    FloatsOf<kType>(stored.words[0], out);
  }
}

// Loads and converts in one call.
template <DType kType>
__device__ void LoadEight(const std::byte* row, int64_t at, float* out) {
  FloatsOf<kType>(LoadStored<kType>(row, at), out);
}

// This lane's kChunks * 8 elements of a head: 8 elements at 8 * (lane %
// kLanes), and 8 after every further 8 * kLanes. Load takes the row's elements
// [first, first + n) for the head; beyond its end it reads the first ones
// instead.
template <DType kType, int kLanes, int kChunks>
struct StoredHead {
  StoredEight<kType> eights[kChunks];

  // The first element of the lane's chunk `c`.
  static __device__ int64_t Place(int c) {
    return LaneIndex() % kLanes * 8 + c * kLanes * 8;
  }

  __device__ void Load(const std::byte* row, int64_t first, int64_t n) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int64_t at = Place(c) < n ? Place(c) : 0;
      eights[c] = LoadStored<kType>(row, first + at);
    }
  }

  // Converts the elements to floats; chunks that are not used give zeros.
  template <class IsUsed>
  __device__ void ToFloats(const IsUsed& is_used, float* out) const {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      FloatsOf<kType>(is_used(c) ? eights[c] : StoredEight<kType>{},
                      out + c * 8);
    }
  }
};

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_ATTENTION_KV_LOAD_CUH_
