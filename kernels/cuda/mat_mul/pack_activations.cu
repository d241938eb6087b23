// Packs rows of activations. A thread takes four values, or a warp a block.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

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

__global__ void PackFours(const float* x, int64_t n_rows, int64_t dim,
                          std::byte* out) {
  WaitForKernelsBefore();
  const int64_t at = GlobalIndex() * 4;
  const int64_t row = at / dim;
  const bool is_in_row = row < n_rows;
  float four[4] = {};
  if (is_in_row) LoadFour(x + at, four);
  PackFour(four, is_in_row, dim, at % dim, out + row * PackedRowBytes(dim));
}

}  // namespace

void PackActivations(const Context& context, const PackActivationsArgs& args) {
  if (IsAligned16(args.x)) {
    const int64_t n_fours = args.n_rows * (args.dim / 4);
    Launch(PackFours, {(n_fours + kThreads - 1) / kThreads}, kThreads, 0,
           context.queue, args.x, args.n_rows, args.dim, args.out);
    return;
  }
  const int64_t n = args.n_rows * (args.dim / kActivationBlock);
  Launch(PackRows, {(n + kWarps - 1) / kWarps}, kThreads, 0, context.queue,
         args.x, args.n_rows, args.dim, args.out);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
