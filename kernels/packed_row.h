// One row of packed activations: int16 values in blocks of 32 that share a
// scale, all values first, then the scales, then scale * (sum of values).
#ifndef PLIMSOLL_KERNELS_PACKED_ROW_H_
#define PLIMSOLL_KERNELS_PACKED_ROW_H_

#include <cstddef>
#include <cstdint>

namespace plimsoll::kernels {

inline constexpr int64_t kActivationBlock = 32;
// 32 int16 values, a float scale and a float scaled sum.
inline constexpr int64_t kActivationBlockBytes = int64_t{32} * 2 + 4 + 4;
inline constexpr float kActivationMax = 32767.0f;
// Blocks whose largest magnitude is below this are stored as zeros: its
// reciprocal must stay finite. A block with a value that is not finite gets
// the scale NaN, so that the product shows it.
inline constexpr float kMinBlockAmax = 1e-30f;

constexpr int64_t PackedRowBytes(int64_t dim) {
  return dim / kActivationBlock * kActivationBlockBytes;
}

// Byte offsets inside a row of `dim` values.
constexpr int64_t PackedScalesOffset(int64_t dim) { return dim * 2; }
constexpr int64_t PackedSumsOffset(int64_t dim) {
  return dim * 2 + dim / kActivationBlock * 4;
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_PACKED_ROW_H_
