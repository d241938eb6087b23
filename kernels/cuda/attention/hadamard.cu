// Hadamard transforms. A warp takes one of them.
#include "kernels/cuda/attention/transform.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpThreads;

// Warp i of the grid transforms the i-th `width` elements of `n` in all.
__global__ void TransformRows(float* x, int64_t n, int64_t width) {
  WaitForKernelsBefore();
  auto* shared = reinterpret_cast<float*>(DynamicShared());
  float* own = shared + WarpIndex() * width;
  const int64_t at = (int64_t{blockIdx.x} * kWarps + WarpIndex()) * width;
  if (at >= n) return;
  for (int64_t c = LaneIndex(); c < width; c += kWarpThreads) {
    own[c] = x[at + c];
  }
  TransformEach(own, width, width);
  for (int64_t c = LaneIndex(); c < width; c += kWarpThreads) {
    x[at + c] = own[c];
  }
}

}  // namespace

void Hadamard(const Context& context, const HadamardArgs& args) {
  const int64_t n = args.n_rows * args.dim;
  if (n == 0) return;
  const int64_t per_block = kWarps * args.width;
  Launch(TransformRows, {(n + per_block - 1) / per_block}, kThreads,
         per_block * static_cast<int64_t>(sizeof(float)), context.queue, args.x,
         n, args.width);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
