// Sums of arrays, in which every row has weights of its own. A thread takes a
// column of a row, in all arrays.
#include "kernels/cuda/numeric.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 256;

// Block (x, y) takes the y-th kThreads columns of row x.
__global__ void MixEach(MixRowsArgs p) {
  WaitForKernelsBefore();
  const int64_t row = blockIdx.x;
  const int64_t c = int64_t{blockIdx.y} * kThreads + ThreadIndex();
  if (c >= p.dim) return;
  const int64_t array = p.n_rows * p.dim;
  const int64_t at = row * p.dim + c;
  const float minus = p.minus == nullptr ? 0.0f : p.minus[at];
  float given[kMaxMixed];
  for (int64_t j = 0; j < p.n_in; ++j) given[j] = p.y[j * array + at] - minus;
  for (int64_t i = 0; i < p.n_out; ++i) {
    float sum = p.x == nullptr ? 0.0f : p.x[i * array + at];
    for (int64_t j = 0; j < p.n_in; ++j) {
      sum = Fma(p.WeightOf(row, i, j), given[j], sum);
    }
    p.out[i * array + at] = sum;
  }
}

}  // namespace

void MixRows(const Context& context, const MixRowsArgs& args) {
  if (args.n_rows == 0 || args.dim == 0) return;
  Launch(MixEach, {args.n_rows, (args.dim + kThreads - 1) / kThreads}, kThreads,
         0, context.queue, args);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
