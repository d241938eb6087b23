// Products in float32: exact weights of any type with float activations. A warp
// computes two outputs. The sum over the columns has one order, whatever the
// batch.
#include "kernels/cuda/mat_mul/weights.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kWarps = kThreads / kWarpThreads;
constexpr int64_t kOutputs = 2;  // one warp's outputs
constexpr int64_t kStep = 8;     // columns that a lane takes at a time

struct FloatInput {
  const float* x;
  int64_t n_rows;
  bool is_aligned;  // rows begin at multiples of 16 bytes
};

// Loads up to kStep columns of a row of weights. Columns beyond the end are
// zero.
template <DType kType>
__device__ void LoadWeights(const DeviceMatrix& w, int64_t row, int64_t col,
                            float* values) {
  constexpr bool kIs16Bit = kType == DType::kF16 || kType == DType::kBF16;
  if constexpr (kIs16Bit) {
    if (w.cols % kStep == 0) {
      FloatsOf<kType>(LoadAt<uint4>(w.data, (row * w.cols + col) * 2), values);
      return;
    }
  }
  for (int64_t i = 0; i < kStep; ++i) {
    values[i] = col + i < w.cols ? Element<kType>(w, row, col + i) : 0.0f;
  }
}

__device__ inline void LoadInput(const FloatInput& input, int64_t cols,
                                 int64_t row, int64_t col, float* values) {
  const float* x =
      input.x + (row < input.n_rows ? row : input.n_rows - 1) * cols + col;
  if (input.is_aligned && col + kStep <= cols) {
    for (int i = 0; i < 2; ++i) {
      const auto four = reinterpret_cast<const float4*>(x)[i];
      values[4 * i] = four.x;
      values[4 * i + 1] = four.y;
      values[4 * i + 2] = four.z;
      values[4 * i + 3] = four.w;
    }
    return;
  }
  for (int64_t i = 0; i < kStep; ++i) {
    values[i] = col + i < cols ? x[i] : 0.0f;
  }
}

template <DType kType, int kBatch>
__global__ void __launch_bounds__(kThreads)
    MultiplyFloats(DeviceMatrix w, FloatInput input, float* out,
                   bool accumulate, int64_t n_batches) {
  WaitForKernelsBefore();
  const int64_t first_output =
      (blockIdx.x / n_batches * kWarps + WarpIndex()) * kOutputs;
  const int64_t first_row = blockIdx.x % n_batches * kBatch;
  if (first_output >= w.rows) return;
  float sums[kOutputs][kBatch] = {};
  for (int64_t col = LaneIndex() * kStep; col < w.cols;
       col += kStep * kWarpThreads) {
    float weights[kOutputs][kStep];
    for (int64_t r = 0; r < kOutputs; ++r) {
      const int64_t row = first_output + r;
      LoadWeights<kType>(w, row < w.rows ? row : w.rows - 1, col, weights[r]);
    }
    for (int m = 0; m < kBatch; ++m) {
      float x[kStep];
      LoadInput(input, w.cols, first_row + m, col, x);
      for (int64_t i = 0; i < kStep; ++i) {
        for (int64_t r = 0; r < kOutputs; ++r) {
          sums[r][m] = Fma(weights[r][i], x[i], sums[r][m]);
        }
      }
    }
  }
  for (int64_t r = 0; r < kOutputs; ++r) {
    for (int m = 0; m < kBatch; ++m) {
      const float sum = WarpSum(sums[r][m]);
      const int64_t output = first_output + r;
      const int64_t row = first_row + m;
      if (LaneIndex() != 0 || output >= w.rows || row >= input.n_rows) continue;
      float& to = out[row * w.rows + output];
      to = accumulate ? to + sum : sum;
    }
  }
}

template <DType kType, int kBatch>
void LaunchMultiply(const Context& context, const MatMulArgs& args) {
  constexpr int64_t kBlockOutputs = kWarps * kOutputs;
  const int64_t n_batches = (args.n_rows + kBatch - 1) / kBatch;
  const int64_t n_blocks = (args.w.rows + kBlockOutputs - 1) / kBlockOutputs;
  const bool is_aligned =
      (reinterpret_cast<uintptr_t>(args.x) |
       static_cast<uintptr_t>(args.w.cols) * sizeof(float)) %
          sizeof(float4) ==
      0;
  const FloatInput input = {args.x, args.n_rows, is_aligned};
  Launch(MultiplyFloats<kType, kBatch>, {n_blocks * n_batches}, kThreads, 0,
         context.queue, MatrixOf(args.w), input, args.out, args.accumulate,
         n_batches);
}

}  // namespace

void MatMulFloat(const Context& context, const MatMulArgs& args) {
  WithType(args.w.dtype, [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    if (args.n_rows == 1) {
      LaunchMultiply<kType, 1>(context, args);
    } else {
      LaunchMultiply<kType, 8>(context, args);
    }
  });
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
