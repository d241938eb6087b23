// Root mean square normalisation, of rows or of what they are less their means.
// A block of threads takes a row, and packs the result where that is asked for.
// A thread has its columns in registers, four at a time, unless rows are too
// long for that or no multiples of four.
#include <type_traits>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

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

// ---- Rows in registers -----------------------------------------------------

constexpr int kMostFours = 8;  // fours of a thread

// What a thread has of a row: fours of columns that are kThreads fours apart.
// Columns beyond the end are zeros.
template <int kFours>
struct RowFragment {
  float at[kFours][4] = {};

  __device__ static int64_t Column(int i) {
    return (int64_t{i} * kThreads + ThreadIndex()) * 4;
  }
  __device__ void Load(const float* row, int64_t dim) {
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      if (Column(i) < dim) LoadFour(row + Column(i), at[i]);
    }
  }
};

// The sum over a row of value(x).
template <int kFours, class Value>
__device__ float SumOf(const RowFragment<kFours>& x, int64_t dim, float* shared,
                       const Value& value) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    if (RowFragment<kFours>::Column(i) >= dim) break;
    for (const float one : x.at[i]) sum += value(one);
  }
  return BlockSum(sum, shared);
}

// Norms a row: `x` becomes what is stored.
template <int kFours>
__device__ void NormFragment(const RmsNormArgs& args,
                             const RowFragment<kFours>& weight,
                             RowFragment<kFours>& x, float* shared) {
  const int64_t row = blockIdx.x;
  const int64_t dim = args.dim;
  const auto size = static_cast<float>(dim);
  float* out = args.out + row * dim;
  RowFragment<kFours> before;
  if (args.accumulate) before.Load(out, dim);
  float mean = 0;
  if (args.subtracts_mean) {
    mean = SumOf(x, dim, shared, [](float one) { return one; }) / size;
  }
  const auto square = [&](float one) { return (one - mean) * (one - mean); };
  float scale = 1.0f / sqrtf(SumOf(x, dim, shared, square) / size + args.eps);
  if (args.like != nullptr) {
    RowFragment<kFours> like;
    like.Load(args.like + row * dim, dim);
    scale *= sqrtf(
        SumOf(like, dim, shared, [](float one) { return one * one; }) / size);
  }
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    const int64_t c = RowFragment<kFours>::Column(i);
    const bool is_in_row = c < dim;
    for (int j = 0; j < 4; ++j) {
      float& y = x.at[i][j];
      y = (y - mean) * scale;
      if (args.weight != nullptr) y *= weight.at[i][j];
      if (args.accumulate) y += before.at[i][j];
      y *= args.scale;
    }
    if (is_in_row) StoreFour(x.at[i], out + c);
    if (args.packed != nullptr) {
      PackFour(x.at[i], is_in_row, dim, c,
               args.packed + row * PackedRowBytes(dim));
    }
  }
}

template <int kFours>
__global__ void __launch_bounds__(kThreads) NormRowFragments(RmsNormArgs args) {
  RowFragment<kFours> weight;
  if (args.weight != nullptr) weight.Load(args.weight, args.dim);
  WaitForKernelsBefore();
  auto* const shared = reinterpret_cast<float*>(DynamicShared());
  RowFragment<kFours> x;
  x.Load(args.x + blockIdx.x * args.XStride(), args.dim);
  NormFragment(args, weight, x, shared);
}

// The second norm reads what the first one has in registers.
template <int kFours>
__global__ void __launch_bounds__(kThreads)
    AddNormRowFragments(AddNormArgs args) {
  RowFragment<kFours> weights[2];
  if (args.add.weight != nullptr) {
    weights[0].Load(args.add.weight, args.add.dim);
  }
  if (args.norm.weight != nullptr) {
    weights[1].Load(args.norm.weight, args.norm.dim);
  }
  WaitForKernelsBefore();
  auto* const shared = reinterpret_cast<float*>(DynamicShared());
  RowFragment<kFours> x;
  x.Load(args.add.x + blockIdx.x * args.add.XStride(), args.add.dim);
  NormFragment(args.add, weights[0], x, shared);
  NormFragment(args.norm, weights[1], x, shared);
}

// Short rows are heads, whose norms have the bits of prepare_heads.cu.
bool HasFragments(const RmsNormArgs& args) {
  return args.dim > kThreads && AreFours(args.dim, args.XStride()) &&
         IsAligned16(args.x) && IsAligned16(args.out) &&
         IsAligned16(args.weight) && IsAligned16(args.like) &&
         args.dim <= kMostFours * 4 * kThreads;
}

// Calls launch(integral constant of the fours that a thread has).
template <class LaunchFragments>
void WithFours(int64_t dim, const LaunchFragments& launch) {
  const int64_t fours = (dim / 4 + kThreads - 1) / kThreads;
  if (fours <= 1) return launch(std::integral_constant<int, 1>{});
  if (fours <= 2) return launch(std::integral_constant<int, 2>{});
  if (fours <= 4) return launch(std::integral_constant<int, 4>{});
  launch(std::integral_constant<int, kMostFours>{});
}

}  // namespace

void RmsNorm(const Context& context, const RmsNormArgs& args) {
  if (!HasFragments(args)) {
    Launch(NormRows, {args.n_rows}, kThreads, kWarps * 4, context.queue, args);
    return;
  }
  WithFours(args.dim, [&](auto fours) {
    Launch(NormRowFragments<decltype(fours)::value>, {args.n_rows}, kThreads,
           kWarps * 4, context.queue, args);
  });
}

void AddNorm(const Context& context, const AddNormArgs& args) {
  if (!HasFragments(args.add) || !HasFragments(args.norm) ||
      args.norm.XStride() != args.add.dim) {
    Launch(AddNormRows, {args.norm.n_rows}, kThreads, kWarps * 4, context.queue,
           args);
    return;
  }
  WithFours(args.norm.dim, [&](auto fours) {
    Launch(AddNormRowFragments<decltype(fours)::value>, {args.norm.n_rows},
           kThreads, kWarps * 4, context.queue, args);
  });
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
