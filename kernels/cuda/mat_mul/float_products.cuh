// The shared part of the kernels for float32 products. A warp computes two
// outputs. The order of the sum over the columns does not depend on the batch.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_FLOAT_PRODUCTS_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_FLOAT_PRODUCTS_CUH_

#include <cstdint>

#include "kernels/cuda/mat_mul/weights.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

inline constexpr int64_t kFloatOutputs = 2;  // one warp's outputs
inline constexpr int64_t kFloatStep = 8;  // columns that a lane takes at a time

struct FloatInput {
  const float* x;
  int64_t n_rows;
  int64_t stride;   // floats from one row to the next
  bool is_aligned;  // rows begin at multiples of 16 bytes
};

inline FloatInput FloatInputOf(const float* x, int64_t n_rows, int64_t stride) {
  const bool is_aligned = (reinterpret_cast<uintptr_t>(x) |
                           static_cast<uintptr_t>(stride) * sizeof(float)) %
                              sizeof(float4) ==
                          0;
  return {x, n_rows, stride, is_aligned};
}

struct FloatOutput {
  float* out;
  int64_t stride;  // floats from one row to the next
  bool accumulate;
};

// Loads up to kFloatStep columns of a row of weights. Columns beyond the end
// are zero.
template <DType kType>
__device__ void LoadWeights(const DeviceMatrix& w, int64_t row, int64_t col,
                            float* values) {
  constexpr bool kIs16Bit = kType == DType::kF16 || kType == DType::kBF16;
  if constexpr (kIs16Bit) {
    if (w.cols % kFloatStep == 0) {
      FloatsOf<kType>(LoadAt<uint4>(w.data, (row * w.cols + col) * 2), values);
      return;
    }
  }
  for (int64_t i = 0; i < kFloatStep; ++i) {
    values[i] = col + i < w.cols ? Element<kType>(w, row, col + i) : 0.0f;
  }
}

__device__ inline void LoadInput(const FloatInput& input, int64_t cols,
                                 int64_t row, int64_t col, float* values) {
  const float* x =
      input.x + (row < input.n_rows ? row : input.n_rows - 1) * input.stride +
      col;
  if (input.is_aligned && col + kFloatStep <= cols) {
    for (int i = 0; i < 2; ++i) {
      const auto four = reinterpret_cast<const float4*>(x)[i];
      values[4 * i] = four.x;
      values[4 * i + 1] = four.y;
      values[4 * i + 2] = four.z;
      values[4 * i + 3] = four.w;
    }
    return;
  }
  for (int64_t i = 0; i < kFloatStep; ++i) {
    values[i] = col + i < cols ? x[i] : 0.0f;
  }
}

// Computes the warp's outputs of rows [first_row, first_row + kBatch), as far
// as there are such outputs and rows.
template <DType kType, int kBatch>
__device__ void MultiplyFloatRows(const DeviceMatrix& w,
                                  const FloatInput& input, int64_t first_output,
                                  int64_t first_row, const FloatOutput& to) {
  if (first_output >= w.rows) return;
  float sums[kFloatOutputs][kBatch] = {};
  for (int64_t col = LaneIndex() * kFloatStep; col < w.cols;
       col += kFloatStep * kWarpThreads) {
    float weights[kFloatOutputs][kFloatStep];
    for (int64_t r = 0; r < kFloatOutputs; ++r) {
      const int64_t row = first_output + r;
      LoadWeights<kType>(w, row < w.rows ? row : w.rows - 1, col, weights[r]);
    }
    for (int m = 0; m < kBatch; ++m) {
      float x[kFloatStep];
      LoadInput(input, w.cols, first_row + m, col, x);
      for (int64_t i = 0; i < kFloatStep; ++i) {
        for (int64_t r = 0; r < kFloatOutputs; ++r) {
          sums[r][m] = Fma(weights[r][i], x[i], sums[r][m]);
        }
      }
    }
  }
  for (int64_t r = 0; r < kFloatOutputs; ++r) {
    for (int m = 0; m < kBatch; ++m) {
      const float sum = WarpSum(sums[r][m]) * w.Scale();
      const int64_t output = first_output + r;
      const int64_t row = first_row + m;
      if (LaneIndex() != 0 || output >= w.rows || row >= input.n_rows) continue;
      float& out = to.out[row * to.stride + output];
      out = to.accumulate ? out + sum : sum;
    }
  }
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_FLOAT_PRODUCTS_CUH_
