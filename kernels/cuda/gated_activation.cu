// The activation of the gate, times up. A warp takes 32 values, and packs them
// where that is asked for.
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

__device__ float Activated(float x, bool is_silu) {
  if (is_silu) return x / (1.0f + expf(-x));
  // 1 / (1 + exp(-2u)) is (1 + tanh(u)) / 2 without cancellation.
  constexpr float kTwoSqrtTwoOverPi = 1.5957691216057308f;
  const float u = kTwoSqrtTwoOverPi * (x + 0.044715f * x * x * x);
  return x / (1.0f + expf(-u));
}

__global__ void GateRows(const float* gate, const float* up, int64_t up_stride,
                         float* out, int64_t n_rows, int64_t dim,
                         Activation activation, std::byte* packed) {
  WaitForKernelsBefore();
  const int64_t row_blocks = (dim + kWarpThreads - 1) / kWarpThreads;
  const int64_t i = int64_t{blockIdx.x} * kWarps + WarpIndex();
  if (i >= n_rows * row_blocks) return;
  const int64_t row = i / row_blocks;
  const int64_t block = i % row_blocks;
  const int64_t c = block * kWarpThreads + LaneIndex();
  const int64_t at = row * dim + c;
  float y = 0;
  if (c < dim) {
    const float factor = up[row * up_stride + c];
    y = activation == Activation::kClampedSwish
            ? ClampedSwish(gate[at], factor)
            : Activated(gate[at], activation == Activation::kSilu) * factor;
    out[at] = y;
  }
  if (packed != nullptr) {
    PackBlock(y, dim, block, packed + row * PackedRowBytes(dim));
  }
}

}  // namespace

void GatedActivation(const Context& context, const GatedActivationArgs& args) {
  const int64_t n =
      args.n_rows * ((args.dim + kWarpThreads - 1) / kWarpThreads);
  Launch(GateRows, {(n + kWarps - 1) / kWarps}, kThreads, 0, context.queue,
         args.gate, args.up, args.UpStride(), args.out, args.n_rows, args.dim,
         args.activation, args.packed);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
