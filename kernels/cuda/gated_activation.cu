// The activation of the gate, times up. A warp takes 128 values, or 32 where
// rows are not multiples of four, and packs them where that is asked for.
#include "kernels/cuda/mat_mul/pack.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kWarps = kThreads / kWarpThreads;

// A comparison with NaN is false, so NaN stays.
__device__ float ClampedSwish(float gate, float up) {
  constexpr float kLimit = kSwishLimit;
  const float x = gate > kLimit ? kLimit : gate;
  float factor = up > kLimit ? kLimit : up;
  if (factor < -kLimit) factor = -kLimit;
  return x / (1.0f + expf(-kSwishSlope * x)) * (factor + 1.0f);
}

__device__ float TanhGelu(float x) {
  // 1 / (1 + exp(-2u)) is (1 + tanh(u)) / 2 without cancellation.
  constexpr float kTwoSqrtTwoOverPi = 1.5957691216057308f;
  const float u = kTwoSqrtTwoOverPi * (x + 0.044715f * x * x * x);
  return x / (1.0f + expf(-u));
}

// The activation of `gate`, times `up`.
__device__ float Gated(float gate, float up, Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return gate / (1.0f + expf(-gate)) * up;
    case Activation::kGeluTanh:
      return TanhGelu(gate) * up;
    case Activation::kRelu:
      return (gate < 0 ? 0 : gate) * up;
    case Activation::kSigmoid:
      return up / (1.0f + expf(-gate));
    case Activation::kClampedSwish:
      break;
  }
  return ClampedSwish(gate, up);
}

__global__ void GateRows(GatedActivationArgs args) {
  WaitForKernelsBefore();
  const int64_t dim = args.dim;
  const int64_t row_blocks = (dim + kWarpThreads - 1) / kWarpThreads;
  const int64_t i = int64_t{blockIdx.x} * kWarps + WarpIndex();
  if (i >= args.n_rows * row_blocks) return;
  const int64_t row = i / row_blocks;
  const int64_t block = i % row_blocks;
  const int64_t c = block * kWarpThreads + LaneIndex();
  float y = 0;
  if (c < dim) {
    y = Gated(args.gate[row * args.GateStride() + c],
              args.up[row * args.UpStride() + c], args.activation);
    args.out[row * dim + c] = y;
  }
  if (args.packed != nullptr) {
    PackBlock(y, dim, block, args.packed + row * PackedRowBytes(dim));
  }
}

// A thread takes four values.
__global__ void GateFours(GatedActivationArgs args) {
  WaitForKernelsBefore();
  const int64_t dim = args.dim;
  const int64_t row_fours = (dim / 4 + 7) / 8 * 8;
  const int64_t i = GlobalIndex();
  const int64_t row = i / row_fours;
  const int64_t c = i % row_fours * 4;
  const bool is_in_row = row < args.n_rows && c < dim;
  float y[4] = {};
  if (is_in_row) {
    float gate[4];
    float up[4];
    LoadFour(args.gate + row * args.GateStride() + c, gate);
    LoadFour(args.up + row * args.UpStride() + c, up);
    for (int j = 0; j < 4; ++j) y[j] = Gated(gate[j], up[j], args.activation);
    StoreFour(y, args.out + row * dim + c);
  }
  if (args.packed == nullptr) return;
  PackFour(y, is_in_row, dim, c, args.packed + row * PackedRowBytes(dim));
}

}  // namespace

void GatedActivation(const Context& context, const GatedActivationArgs& args) {
  if (AreFours(args.dim, args.GateStride(), args.UpStride()) &&
      IsAligned16(args.gate) && IsAligned16(args.up) && IsAligned16(args.out)) {
    const int64_t n_fours = args.n_rows * ((args.dim / 4 + 7) / 8 * 8);
    Launch(GateFours, {(n_fours + kThreads - 1) / kThreads}, kThreads, 0,
           context.queue, args);
    return;
  }
  const int64_t n =
      args.n_rows * ((args.dim + kWarpThreads - 1) / kWarpThreads);
  Launch(GateRows, {(n + kWarps - 1) / kWarps}, kThreads, 0, context.queue,
         args);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
