// Rows are cut some standard deviations above their means. A block of threads
// takes a row.
#include "kernels/cuda/numeric.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarpThreads;

__global__ void CutEach(CutRowsArgs p) {
  WaitForKernelsBefore();
  auto* shared = reinterpret_cast<float*>(DynamicShared());
  float* x = p.x + int64_t{blockIdx.x} * p.dim;
  const auto n = static_cast<float>(p.dim);
  float sum = 0;
  for (int64_t c = ThreadIndex(); c < p.dim; c += kThreads) sum += x[c];
  const float mean = BlockSum(sum, shared) / n;
  float squares = 0;
  for (int64_t c = ThreadIndex(); c < p.dim; c += kThreads) {
    squares = Fma(x[c] - mean, x[c] - mean, squares);
  }
  squares = BlockSum(squares, shared);
  const float cut = mean + p.deviations * sqrtf(squares / n);
  for (int64_t c = ThreadIndex(); c < p.dim; c += kThreads) {
    const float above = x[c] - cut;
    x[c] = above < 0 ? 0 : above;
  }
}

}  // namespace

void CutRows(const Context& context, const CutRowsArgs& args) {
  if (args.n_rows == 0 || args.dim == 0) return;
  Launch(CutEach, {args.n_rows}, kThreads, kWarps * 4, context.queue, args);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
