// Soft-caps the outputs of a product: cap * tanh(output / cap).
#include "kernels/cuda/numeric.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 256;

__global__ void CapOutputs(float* x, int64_t n, float cap) {
  WaitForKernelsBefore();
  const int64_t i = int64_t{blockIdx.x} * kThreads + ThreadIndex();
  if (i < n) x[i] = cap * tanhf(x[i] / cap);
}

}  // namespace

void SoftCap(const Context& context, const MatMulArgs& args) {
  const int64_t n = args.n_rows * args.w.rows;
  if (n == 0) return;
  Launch(CapOutputs, {(n + kThreads - 1) / kThreads}, kThreads, 0,
         context.queue, args.out, n, args.soft_cap);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
