// Where a block of the file has the scale of all its quants.
#ifndef PLIMSOLL_KERNELS_QUANT_SCALE_OFFSET_H_
#define PLIMSOLL_KERNELS_QUANT_SCALE_OFFSET_H_

#include "base/dtype.h"

namespace plimsoll::kernels {

// The offset in bytes of the scale, which is a float16, an exponent of 8 bits
// in MXFP4, or the first of four scales of 8 bits in NVFP4. IQ1_M, whose scale
// is spread over the block, has no such offset. Source: the GGUF
// specification's block layouts.
constexpr int ScaleOffset(DType dtype) {
  switch (dtype) {
    case DType::kQ6_K:
      return 208;
    case DType::kQ3_K:
      return 108;
    case DType::kQ2_K:
      return 80;
    case DType::kTq1_0:
      return 52;
    case DType::kTq2_0:
      return 64;
    default:
      return 0;
  }
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_QUANT_SCALE_OFFSET_H_
