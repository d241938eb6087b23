// Products of which each head has a matrix of its own.
#ifndef PLIMSOLL_KERNELS_HEADS_H_
#define PLIMSOLL_KERNELS_HEADS_H_

#include <cstdint>

#include "kernels/experts.h"

namespace plimsoll::kernels {

// out[r][h] = w[h] x[r][h], for every head h of every row r, in float32 with
// weights dequantised exactly. x and out do not overlap.
struct HeadMatMulArgs {
  ExpertMatrices w;  // one matrix of each head
  int64_t n_rows;
  int64_t n_heads;
  const float* x;      // [n_rows, n_heads, w.first.cols]
  int64_t x_stride;    // floats from one head to the next; at least cols
  float* out;          // [n_rows, n_heads, w.first.rows]
  int64_t out_stride;  // like x_stride; at least rows
};

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_HEADS_H_
