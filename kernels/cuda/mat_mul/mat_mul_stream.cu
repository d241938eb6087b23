// Integer products of up to eight rows, whose weights go through shared memory
// (stream_tiles.cuh).
#include <algorithm>

#include "kernels/cuda/mat_mul/stream_tiles.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

template <DType kType, int kRows>
void MultiplyRows(const Context& context,
                  std::span<const MatMulArgs> products) {
  int64_t n_units = 0;
  const Products all = ProductsOf(products, 1, n_units);
  const PlainOutputs<kRows> outputs = {
      .sums = reinterpret_cast<float*>(context.scratch),
      .counts = context.counts,
  };
  LaunchStream<kType, kRows>(
      context, all, products.front(),
      {.n_units = n_units,
       .n_blocks = context.n_multiprocessors * kStreamBlocks},
      outputs);
}

// The scratch memory that the slices of `n_outputs` outputs take.
int64_t SliceBytes(const StreamSlices& slices, int64_t n_outputs) {
  if (slices.n_slices == 1) return 0;
  return slices.n_slices * (n_outputs + kTileRows) * kGroupRows *
         int64_t{sizeof(float)};
}

}  // namespace

bool CanStream(const DeviceFacts& facts) {
  constexpr int64_t kSharedBytes =
      StreamRoom<DType::kQ8_0, kGroupRows>::kSharedBytes;
  if (facts.shared_bytes < kSharedBytes) return false;
#ifdef PLIMSOLL_CUDA_EMULATED
  return true;
#else
  // Code for compute capability 8.0 has no such copies, wherever it runs.
  cudaFuncAttributes attributes = {};
  if (cudaFuncGetAttributes(&attributes,
                            StreamTiles<DType::kQ8_0, 1, PlainOutputs<1>>) !=
      cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return attributes.ptxVersion >= 90;
#endif
}

bool HasStreamProduct(const WeightMatrix& w) {
  const StreamSlices slices(w.cols / kTileCols);
  // A launch has up to kMaxProducts matrices.
  if (slices.n_slices > kMostStreamSlices ||
      SliceBytes(slices, w.rows) * int64_t{kMaxProducts} > kScratchBytes) {
    return false;
  }
  bool fits = false;
  WithType(w.dtype, [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    if constexpr (IsTiled(kType)) {
      fits = StreamRoom<kType, 1>(slices).Fits() &&
             StreamRoom<kType, kGroupRows>(slices).Fits();
    }
  });
  return fits;
}

void MultiplyStream(const Context& context,
                    std::span<const MatMulArgs> products) {
  const MatMulArgs& first = products.front();
  WithType(first.w.dtype, [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    if constexpr (IsTiled(kType)) {
      if (first.n_rows == 1) {
        MultiplyRows<kType, 1>(context, products);
      } else {
        MultiplyRows<kType, kGroupRows>(context, products);
      }
    }
  });
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
