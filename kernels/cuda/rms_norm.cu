// Root mean square normalisation, of rows or of what they are less their means.
// A block of threads takes a row, and packs the result where that is asked for.
#include "kernels/cuda/mat_mul/pack.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarpThreads;

// The mean of the squares of x - mean, which all threads of the block get.
__device__ float MeanSquare(const float* x, int64_t dim, float mean,
                            float* shared) {
  float sum = 0;
  for (int64_t c = ThreadIndex(); c < dim; c += kThreads) {
    sum = Fma(x[c] - mean, x[c] - mean, sum);
  }
  return BlockSum(sum, shared) / static_cast<float>(dim);
}

// Norms row blockIdx.x. Every thread reads and writes the same columns, so that
// a norm may read what an earlier norm wrote.
__device__ void NormRow(const RmsNormArgs& args, float* shared) {
  const int64_t row = blockIdx.x;
  const int64_t dim = args.dim;
  const float* x = args.x + row * args.XStride();
  float* out = args.out + row * dim;
  float mean = 0;
  if (args.subtracts_mean) {
    for (int64_t c = ThreadIndex(); c < dim; c += kThreads) mean += x[c];
    mean = BlockSum(mean, shared) / static_cast<float>(dim);
  }
  float scale = 1.0f / sqrtf(MeanSquare(x, dim, mean, shared) + args.eps);
  if (args.like != nullptr) {
    scale *= sqrtf(MeanSquare(args.like + row * dim, dim, 0, shared));
  }
  const int64_t n_blocks = (dim + kWarpThreads - 1) / kWarpThreads;
  for (int64_t block = WarpIndex(); block < n_blocks; block += kWarps) {
    const int64_t c = block * kWarpThreads + LaneIndex();
    float y = 0;
    if (c < dim) {
      y = (x[c] - mean) * scale;
      if (args.weight != nullptr) y *= args.weight[c];
      if (args.accumulate) y += out[c];
      y *= args.scale;
      out[c] = y;
    }
    if (args.packed != nullptr) {
      PackBlock(y, dim, block, args.packed + row * PackedRowBytes(dim));
    }
  }
}

__global__ void NormRows(RmsNormArgs args) {
  WaitForKernelsBefore();
  NormRow(args, reinterpret_cast<float*>(DynamicShared()));
}

__global__ void AddNormRows(AddNormArgs args) {
  WaitForKernelsBefore();
  NormRow(args.add, reinterpret_cast<float*>(DynamicShared()));
  NormRow(args.norm, reinterpret_cast<float*>(DynamicShared()));
}

}  // namespace

void RmsNorm(const Context& context, const RmsNormArgs& args) {
  Launch(NormRows, {args.n_rows}, kThreads, kWarps * 4, context.queue, args);
}

void AddNorm(const Context& context, const AddNormArgs& args) {
  Launch(AddNormRows, {args.norm.n_rows}, kThreads, kWarps * 4, context.queue,
         args);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
