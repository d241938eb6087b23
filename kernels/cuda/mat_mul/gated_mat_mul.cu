// The gated half of a feed-forward network, for one row: both products, the
// activation and the packing of its result in one kernel.
#include <array>

#include "kernels/cuda/mat_mul/stream_tiles.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

bool FusesGatedMatMul(const Context& context, const GatedMatMulArgs& args) {
  const MatMulArgs& gate = args.gate;
  // Both products of a unit are kept at the same time.
  const int64_t n_slices = StreamSlices(gate.w.cols / kTileCols).n_slices;
  return context.streams_weights && gate.n_rows == 1 &&
         gate.packed != nullptr && !args.keeps_floats &&
         gate.w.dtype == args.up.w.dtype && HasStreamProduct(gate.w) &&
         GatedOutputs::kUnitTiles * n_slices <= Kept<1>::kEntries;
}

const std::byte* GatedMatMul(const Context& context,
                             const GatedMatMulArgs& args) {
  const std::array products = {args.gate, args.up};
  int64_t n_row_tiles = 0;
  const Products all = ProductsOf(products, 1, n_row_tiles);
  // Blocks read the packed activations as long as others write, so the result
  // cannot lie there.
  const GatedOutputs outputs = {
      .packed = reinterpret_cast<std::byte*>(args.gate.out),
      .activation = args.activation,
  };
  WithType(args.gate.w.dtype, [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    if constexpr (IsTiled(kType)) {
      LaunchStream<kType, 1>(
          context, all, args.gate,
          {.n_units = args.gate.w.rows / kActivationBlock,
           .n_blocks = context.n_multiprocessors * kStreamBlocks},
          outputs);
    }
  });
  return outputs.packed;
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
