// One row of packed activations: int16 values in blocks of 32 that share a
// scale. A row has all values, then the scales, then each block's scale * (sum
// of values), then the blocks' cross products.
#ifndef PLIMSOLL_KERNELS_QUANT_PACKED_ROW_H_
#define PLIMSOLL_KERNELS_QUANT_PACKED_ROW_H_

#include <cstddef>
#include <cstdint>

namespace plimsoll::kernels {

inline constexpr int64_t kActivationBlock = 32;
// 32 int16 values, a float scale, a float scaled sum, two cross products.
inline constexpr int64_t kActivationBlockBytes = int64_t{32} * 2 + 4 + 4 + 8;
// The largest int16 of an activation: its high byte fits an int8, and its sum
// with a quantised weight, which is 128 at most, fits an int16
// (cpu/mat_mul/mat_mul_many.cc).
inline constexpr float kActivationMax = 127.0f * 256;
// Blocks whose largest magnitude is below this are stored as zeros, because the
// reciprocal of a block's largest magnitude must stay finite. A block with a
// value that is not finite gets the scale NaN, so that the product shows it.
inline constexpr float kMinBlockAmax = 1e-30f;

constexpr int64_t PackedRowBytes(int64_t dim) {
  return dim / kActivationBlock * kActivationBlockBytes;
}

// Byte offsets inside a row of `dim` values.
constexpr int64_t PackedScalesOffset(int64_t dim) { return dim * 2; }
constexpr int64_t PackedSumsOffset(int64_t dim) {
  return dim * 2 + dim / kActivationBlock * 4;
}

constexpr int64_t PackedCrossOffset(int64_t dim) {
  return dim * 2 + dim / kActivationBlock * 8;
}

// A block keeps cross products of its first groups of four columns; these many
// groups.
inline constexpr int kCrossGroups = 5;

// Sums of q[4g] q[4g + 2] + q[4g + 1] q[4g + 3] over groups g of a block,
// modulo 2^32.
struct CrossProducts {
  uint32_t half = 0;  // sum over the first 16 columns: g < 4
  uint32_t all = 0;   // g < kCrossGroups
};

inline CrossProducts CrossProductsOf(const int16_t* q) {
  CrossProducts cross;
  for (int64_t g = 0; g < kCrossGroups; ++g) {
    if (g == 4) cross.half = cross.all;
    cross.all += static_cast<uint32_t>(q[4 * g] * q[4 * g + 2]);
    cross.all += static_cast<uint32_t>(q[4 * g + 1] * q[4 * g + 3]);
  }
  return cross;
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_QUANT_PACKED_ROW_H_
