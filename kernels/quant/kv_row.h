// How rows of keys and values are stored in a cache.
#ifndef PLIMSOLL_KERNELS_QUANT_KV_ROW_H_
#define PLIMSOLL_KERNELS_QUANT_KV_ROW_H_

#include <cstdint>

#include "base/dtype.h"

namespace plimsoll::kernels {

// A block of q8_0: the scale as f16, then its values as int8.
inline constexpr int64_t kQ80Elements = 32;
inline constexpr int64_t kQ80Bytes = 2 + kQ80Elements;
inline constexpr float kQ80Max = 127.0f;

// True for the types that StoreRows writes and Attention reads: F32, F16, BF16
// and Q8_0. A row is stored as it would be in a file. A block of Q8_0 has the
// scale d = amax / 127, stored as f16. Its values are round(x / d), half away
// from zero, with d before its rounding. A block whose stored scale is zero is
// all zeros. A block with a value that is not finite has the scale NaN, so that
// attention shows it.
constexpr bool IsKvType(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 ||
         dtype == DType::kBF16 || dtype == DType::kQ8_0;
}

// Bytes of `n` elements; `n` is a whole number of blocks.
constexpr int64_t KvBytes(DType dtype, int64_t n) {
  switch (dtype) {
    case DType::kF32:
      return n * 4;
    case DType::kQ8_0:
      return n / kQ80Elements * kQ80Bytes;
    default:
      return n * 2;
  }
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_QUANT_KV_ROW_H_
