// Hadamard transforms of heads. They spread a few large elements over all
// elements, so that keys and values can be stored with few bits.
#ifndef PLIMSOLL_KERNELS_HADAMARD_H_
#define PLIMSOLL_KERNELS_HADAMARD_H_

#include <cstdint>

#include "kernels/quant/kv_row.h"

namespace plimsoll::kernels {

// Replaces every `width` elements of a row by their Hadamard transform:
// y[i] = sum over j of s(i, j) * x[j] / sqrt(width), where s(i, j) is 1 if i &
// j has an even number of bits and -1 otherwise. It keeps products of vectors,
// and it is its own inverse.
struct HadamardArgs {
  float* x;  // [n_rows, dim], in place
  int64_t n_rows;
  int64_t dim;    // a multiple of width
  int64_t width;  // a power of two, from 32 to kMaxHeadDim
};

// True for the types that the cache stores as Hadamard transforms of heads. If
// keys have such a type, queries are transformed too, so that their products do
// not change. If values have such a type, attention computes the transform of
// its result.
constexpr bool IsTransformed(DType dtype) { return IsKvBlockType(dtype); }

// The width of the transforms in a head: the largest power of two that divides
// it.
constexpr int64_t HadamardWidth(int64_t head_dim) {
  return head_dim & -head_dim;
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_HADAMARD_H_
