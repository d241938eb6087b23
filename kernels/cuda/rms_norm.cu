// Root mean square normalisation: a block of threads a row, which packs what it
// gives where that is asked for.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarpThreads;

__global__ void NormRows(const float* x, const float* weight, float* out,
                         int64_t dim, float eps, bool accumulate,
                         std::byte* packed) {
  WaitForKernelsBefore();
  auto* shared = reinterpret_cast<float*>(DynamicShared());
  const int64_t row = blockIdx.x;
  x += row * dim;
  out += row * dim;
  float sum = 0;
  for (int64_t c = ThreadIndex(); c < dim; c += kThreads) {
    sum = Fma(x[c], x[c], sum);
  }
  sum = BlockSum(sum, shared);
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(dim) + eps);
  const int64_t n_blocks = (dim + kWarpThreads - 1) / kWarpThreads;
  for (int64_t block = WarpIndex(); block < n_blocks; block += kWarps) {
    const int64_t c = block * kWarpThreads + LaneIndex();
    float y = 0;
    if (c < dim) {
      y = x[c] * scale * weight[c];
      if (accumulate) y += out[c];
      out[c] = y;
    }
    if (packed != nullptr) {
      PackBlock(y, dim, block, packed + row * PackedRowBytes(dim));
    }
  }
}

}  // namespace

void RmsNorm(const Context& context, const RmsNormArgs& args) {
  Launch(NormRows, {args.n_rows}, kThreads, kWarps * 4, context.queue, args.x,
         args.weight, args.out, args.dim, args.eps, args.accumulate,
         args.packed);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
