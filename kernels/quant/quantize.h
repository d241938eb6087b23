// Rows of floats as blocks of quantised weights, in the file's layout.
#ifndef PLIMSOLL_KERNELS_QUANT_QUANTIZE_H_
#define PLIMSOLL_KERNELS_QUANT_QUANTIZE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"

namespace plimsoll::kernels {

// True for the types that QuantizeRow writes: F32, F16, BF16, Q8_0, Q4_0, Q4_K
// and Q6_K.
bool IsQuantizable(DType dtype);

// Writes the row x[0, n) to `out`, RowBytes(dtype, n) bytes. F16 and BF16 are
// rounded to nearest, ties to even. Q8_0 and Q4_0 have the bits of the format's
// reference. For Q4_K and Q6_K scales are searched whose squared error is
// least (quantize_k.h).
// Errors: kUnimplemented if !IsQuantizable(dtype); kInvalidArgument if n is not
// a whole number of blocks or a value is not finite; kOutOfRange if a value is
// too large for the type.
absl::Status QuantizeRow(DType dtype, const float* x, int64_t n,
                         std::byte* out);

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_QUANT_QUANTIZE_H_
