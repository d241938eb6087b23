// Products in float32: exact weights of any type with float activations.
#include "kernels/cuda/mat_mul/float_products.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kWarps = kThreads / kWarpThreads;

template <DType kType, int kBatch>
__global__ void __launch_bounds__(kThreads)
    MultiplyFloats(DeviceMatrix w, FloatInput input, float* out,
                   bool accumulate, int64_t n_batches) {
  WaitForKernelsBefore();
  const int64_t first_output =
      (blockIdx.x / n_batches * kWarps + WarpIndex()) * kFloatOutputs;
  const int64_t first_row = blockIdx.x % n_batches * kBatch;
  MultiplyFloatRows<kType, kBatch>(w, input, first_output, first_row, out,
                                   accumulate);
}

template <DType kType, int kBatch>
void LaunchMultiply(const Context& context, const MatMulArgs& args) {
  constexpr int64_t kBlockOutputs = kWarps * kFloatOutputs;
  const int64_t n_batches = (args.n_rows + kBatch - 1) / kBatch;
  const int64_t n_blocks = (args.w.rows + kBlockOutputs - 1) / kBlockOutputs;
  const FloatInput input = FloatInputOf(args.x, args.n_rows, args.w.cols);
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
