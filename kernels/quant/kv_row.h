// How rows of keys and values are stored in a cache.
#ifndef PLIMSOLL_KERNELS_QUANT_KV_ROW_H_
#define PLIMSOLL_KERNELS_QUANT_KV_ROW_H_

#include <cstdint>

#include "base/dtype.h"

namespace plimsoll::kernels {

// Elements of a block of Q8_0, Q5_1 or Q4_0.
inline constexpr int64_t kKvBlock = 32;
// A block of Q8_0: the scale as f16, then its values as int8.
inline constexpr int64_t kQ80Bytes = 2 + kKvBlock;
inline constexpr float kQ80Max = 127.0f;
// A block of Q4_0: the scale as f16, then a nibble for each value. A byte has
// the nibbles of elements i (low) and i + 16.
inline constexpr int64_t kQ40Bytes = 2 + kKvBlock / 2;
// A block of Q5_1: scale and minimum as f16, the fifth bits of all values, of
// which bit i is element i's, then nibbles.
inline constexpr int64_t kQ51Bytes = 2 + 2 + 4 + kKvBlock / 2;

// True for the types whose rows are blocks that have a scale each.
constexpr bool IsKvBlockType(DType dtype) {
  return dtype == DType::kQ8_0 || dtype == DType::kQ5_1 ||
         dtype == DType::kQ4_0;
}

// True for the types that StoreRows writes and Attention reads: F32, F16, BF16,
// Q8_0, Q5_1 and Q4_0. A row is stored as it would be in a file.
//
// A block of Q8_0 has the scale d = amax / 127, and its levels are
// round(x / d), half away from zero. A block of Q4_0 has d = peak / -8, where
// peak is the value of the largest magnitude (of two, the positive one), and
// its levels are floor(x / d + 8.5), at most 15. A block of Q5_1 has the
// minimum m and d = (maximum - m) / 31, and its levels are
// floor((x - m) / d + 0.5). Levels are computed with 1 / d, and before d and m
// are rounded to f16. A block whose stored scale is zero has levels of zero. A
// block with a value that is not finite has the scale NaN, so that attention
// shows it.
constexpr bool IsKvType(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 ||
         dtype == DType::kBF16 || IsKvBlockType(dtype);
}

// True for the types whose values are nibbles.
constexpr bool IsNibbleType(DType dtype) {
  return dtype == DType::kQ5_1 || dtype == DType::kQ4_0;
}

// Bytes of `n` elements; `n` is a whole number of blocks.
constexpr int64_t KvBytes(DType dtype, int64_t n) {
  switch (dtype) {
    case DType::kF32:
      return n * 4;
    case DType::kQ8_0:
      return n / kKvBlock * kQ80Bytes;
    case DType::kQ5_1:
      return n / kKvBlock * kQ51Bytes;
    case DType::kQ4_0:
      return n / kKvBlock * kQ40Bytes;
    default:
      return n * 2;
  }
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_QUANT_KV_ROW_H_
