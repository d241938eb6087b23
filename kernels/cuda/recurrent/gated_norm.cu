// A norm of each group of a row, and a gate before or after it. A block of
// threads takes a group, and packs the result where that is asked for.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarpThreads;

__device__ inline float Silu(float x) { return x / (1.0f + expf(-x)); }

// Block (x, y) takes group y of row x. Every thread reads and writes the same
// columns, so that `out` may be `x`.
__global__ void NormGroups(GatedNormArgs args) {
  WaitForKernelsBefore();
  auto* shared = reinterpret_cast<float*>(DynamicShared());
  const int64_t row = blockIdx.x;
  const int64_t group = blockIdx.y;
  const int64_t dim = args.dim;
  const int64_t row_floats = args.RowFloats();
  const float* x = args.x + row * row_floats + group * dim;
  const float* gate = args.gate + row * args.gate_stride + group * dim;
  const float* weight = args.weight + args.WeightAt(group);
  float* out = args.out + row * row_floats + group * dim;
  float sum = 0;
  for (int64_t c = ThreadIndex(); c < dim; c += kThreads) {
    const float y = args.gates_first ? x[c] * Silu(gate[c]) : x[c];
    sum = Fma(y, y, sum);
  }
  const float square = BlockSum(sum, shared) / static_cast<float>(dim);
  const float scale = 1.0f / sqrtf(square + args.eps);
  const int64_t n_blocks = (dim + kWarpThreads - 1) / kWarpThreads;
  for (int64_t block = WarpIndex(); block < n_blocks; block += kWarps) {
    const int64_t c = block * kWarpThreads + LaneIndex();
    float y = 0;
    if (c < dim) {
      const float factor = Silu(gate[c]);
      y = args.gates_first ? x[c] * factor * scale * weight[c]
                           : x[c] * scale * weight[c] * factor;
      out[c] = y;
    }
    if (args.packed != nullptr) {
      PackBlock(y, row_floats, group * n_blocks + block,
                args.packed + row * PackedRowBytes(row_floats));
    }
  }
}

}  // namespace

void GatedNorm(const Context& context, const GatedNormArgs& args) {
  Launch(NormGroups, {args.n_rows, args.n_groups}, kThreads, kWarps * 4,
         context.queue, args);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
