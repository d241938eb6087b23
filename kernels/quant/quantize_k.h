// Blocks of 256 floats as Q4_K and Q6_K. The format defines the values that a
// block represents, not which scales to choose.
#ifndef PLIMSOLL_KERNELS_QUANT_QUANTIZE_K_H_
#define PLIMSOLL_KERNELS_QUANT_QUANTIZE_K_H_

#include <cstddef>

namespace plimsoll::kernels {

// Each writes x[0, 256), all finite, as one block: 144 bytes of Q4_K, 210 of
// Q6_K. Some twenty scales are tried for each sub-block, each with the offset
// and the factor that have the least squared error for its quants. The scales
// are rounded to what the block can store, and the neighbour with the least
// squared error is taken. Returns false if the block's scale is infinite as a
// float16.
bool QuantizeQ4K(const float* x, std::byte* block);
bool QuantizeQ6K(const float* x, std::byte* block);

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_QUANT_QUANTIZE_K_H_
