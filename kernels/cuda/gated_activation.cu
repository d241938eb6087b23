// The activation of the gate, times up. A warp takes 128 values, or 32 where
// rows are not multiples of four, and packs them where that is asked for.
#include "kernels/cuda/gated.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kWarps = kThreads / kWarpThreads;

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
