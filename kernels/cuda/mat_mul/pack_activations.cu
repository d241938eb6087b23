// Packs rows of activations. A warp takes one block.
#include "kernels/cuda/mat_mul/pack.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kWarps = kThreads / kWarpThreads;

__global__ void PackRows(const float* x, int64_t n_rows, int64_t dim,
                         std::byte* out) {
  WaitForKernelsBefore();
  const int64_t row_blocks = dim / kActivationBlock;
  const int64_t i = int64_t{blockIdx.x} * kWarps + WarpIndex();
  if (i >= n_rows * row_blocks) return;
  const int64_t row = i / row_blocks;
  PackBlock(x[i * kActivationBlock + LaneIndex()], dim, i % row_blocks,
            out + row * PackedRowBytes(dim));
}

}  // namespace

void PackActivations(const Context& context, const PackActivationsArgs& args) {
  const int64_t n = args.n_rows * (args.dim / kActivationBlock);
  Launch(PackRows, {(n + kWarps - 1) / kWarps}, kThreads, 0, context.queue,
         args.x, args.n_rows, args.dim, args.out);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
