// Products in float32: exact weights of any type with float activations.
#include "kernels/cuda/mat_mul/float_products.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kWarps = kThreads / kWarpThreads;

// The distances from one head to the next.
struct HeadSteps {
  int64_t matrix_bytes;
  int64_t x_floats;
  int64_t out_floats;
};

// Blocks (., h) multiply the rows of head h; the other arguments are head 0's.
template <DType kType, int kBatch>
__global__ void __launch_bounds__(kThreads)
    MultiplyFloats(DeviceMatrix w, FloatInput input, FloatOutput to,
                   HeadSteps steps, int64_t n_batches) {
  WaitForKernelsBefore();
  const int64_t head = blockIdx.y;
  w.data += head * steps.matrix_bytes;
  if (w.scale != nullptr) w.scale += head;
  input.x += head * steps.x_floats;
  to.out += head * steps.out_floats;
  const int64_t first_output =
      (blockIdx.x / n_batches * kWarps + WarpIndex()) * kFloatOutputs;
  const int64_t first_row = blockIdx.x % n_batches * kBatch;
  MultiplyFloatRows<kType, kBatch>(w, input, first_output, first_row, to);
}

template <DType kType, int kBatch>
void LaunchMultiply(const Context& context, const HeadMatMulArgs& args,
                    bool accumulate) {
  const WeightMatrix& w = args.w.first;
  constexpr int64_t kBlockOutputs = kWarps * kFloatOutputs;
  const int64_t n_batches = (args.n_rows + kBatch - 1) / kBatch;
  const int64_t n_blocks = (w.rows + kBlockOutputs - 1) / kBlockOutputs;
  FloatInput input =
      FloatInputOf(args.x, args.n_rows, args.n_heads * args.x_stride);
  // All heads must begin at such multiples, not the rows of the first alone.
  constexpr int64_t kAlignedFloats = sizeof(float4) / sizeof(float);
  input.is_aligned &= args.x_stride % kAlignedFloats == 0;
  Launch(MultiplyFloats<kType, kBatch>, {n_blocks * n_batches, args.n_heads},
         kThreads, 0, context.queue, MatrixOf(w), input,
         FloatOutput{args.out, args.n_heads * args.out_stride, accumulate},
         HeadSteps{args.w.matrix_bytes, args.x_stride, args.out_stride},
         n_batches);
}

void Multiply(const Context& context, const HeadMatMulArgs& args,
              bool accumulate) {
  WithType(args.w.first.dtype, [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    if (args.n_rows == 1) {
      LaunchMultiply<kType, 1>(context, args, accumulate);
    } else {
      LaunchMultiply<kType, 8>(context, args, accumulate);
    }
  });
}

}  // namespace

void MatMulFloat(const Context& context, const MatMulArgs& args) {
  const HeadMatMulArgs one_head = {.w = {.first = args.w},
                                   .n_rows = args.n_rows,
                                   .n_heads = 1,
                                   .x = args.x,
                                   .x_stride = args.w.cols,
                                   .out = args.out,
                                   .out_stride = args.w.rows};
  Multiply(context, one_head, args.accumulate);
}

void HeadMatMul(const Context& context, const HeadMatMulArgs& args) {
  if (args.n_rows == 0) return;
  Multiply(context, args, /*accumulate=*/false);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
