// Rows of quantised blocks, in the file's layout, as float32.
#ifndef PLIMSOLL_KERNELS_QUANT_DEQUANTIZE_H_
#define PLIMSOLL_KERNELS_QUANT_DEQUANTIZE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"

namespace plimsoll::kernels {

// True for the element types that weights may have.
bool IsWeightType(DType dtype);

// out[0, n) = the values of one row. `bytes` holds RowBytes(dtype, n) bytes.
// Every product of scales and quants is exact in float32, so a value is
// rounded at most once, where a minimum is added.
// Errors: kUnimplemented if !IsWeightType(dtype); kInvalidArgument if n is not
// a whole number of blocks.
// Source: the GGUF specification's block layouts.
absl::Status DequantizeRow(DType dtype, const std::byte* bytes, int64_t n,
                           float* out);

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_QUANT_DEQUANTIZE_H_
