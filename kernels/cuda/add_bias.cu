// Adds biases to every row of up to kMaxBiases buffers, in one launch.
#include <algorithm>

#include "kernels/cuda/numeric.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 256;

struct Biases {
  AddBiasArgs args[kMaxBiases];
};

// Block (x, y, z) takes row x of buffer z, and the y-th kThreads columns of it.
__global__ void AddBiasRows(Biases biases) {
  WaitForKernelsBefore();
  const AddBiasArgs& args = biases.args[blockIdx.z];
  const int64_t row = blockIdx.x;
  const int64_t c = int64_t{blockIdx.y} * kThreads + ThreadIndex();
  if (c >= args.dim) return;
  args.x[row * args.dim + c] += args.bias[c];
}

}  // namespace

void AddBiases(const Context& context, std::span<const AddBiasArgs> list) {
  Biases biases = {};
  int64_t widest = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    biases.args[i] = list[i];
    widest = std::max(widest, list[i].dim);
  }
  const int64_t n_rows = list.empty() ? 0 : list.front().n_rows;
  if (n_rows == 0 || widest == 0) return;
  Launch(AddBiasRows,
         {n_rows, (widest + kThreads - 1) / kThreads,
          static_cast<int64_t>(list.size())},
         kThreads, 0, context.queue, biases);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
