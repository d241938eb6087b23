// Blocks of the types IQ1, IQ2 and IQ3, in the file's layout, as float32.
#ifndef PLIMSOLL_KERNELS_QUANT_DEQUANTIZE_GRID_H_
#define PLIMSOLL_KERNELS_QUANT_DEQUANTIZE_GRID_H_

#include <cstddef>

#include "base/dtype.h"

namespace plimsoll::kernels {

// out[0, 256) = the values of one block; IsGridType(dtype).
void DequantizeGridBlock(DType dtype, const std::byte* block, float* out);

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_QUANT_DEQUANTIZE_GRID_H_
