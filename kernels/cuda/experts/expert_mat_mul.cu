// Products of experts. The rows of an expert are multiplied in batches of
// eight; which expert a block of threads works for is read on the device, so
// that a step's launches do not depend on what its rows chose. The operations
// of an output are those of a dense product.
#include <algorithm>
#include <iterator>
#include <span>

#include "kernels/cuda/mat_mul/float_products.cuh"
#include "kernels/cuda/mat_mul/products.cuh"
#include "kernels/cuda/ops.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kBatchRows = kGroupRows;
constexpr int kFloatThreads = 128;
constexpr int64_t kFloatWarps = kFloatThreads / kWarpThreads;
constexpr int kElementThreads = 256;

// The matrices of a launch: one product, or two by the same rows.
struct ExpertProduct {
  DeviceMatrix first;  // expert 0's
  int64_t matrix_bytes;
  float* out;  // [places, first.rows]
};
struct ExpertProducts {
  ExpertProduct of[2];
  int64_t n_first_blocks;  // thread blocks for a batch of of[0]
};

// Rows of one expert that are multiplied together.
struct Batch {
  int expert;
  int first_place;
  int n_rows;  // 0: there is no such batch
};

// Batches that are enough, whatever the rows chose.
int64_t NumBatches(const ExpertRows& rows) {
  const int64_t n_places = rows.NumPlaces();
  return std::min(n_places, n_places / kBatchRows + rows.n_experts);
}

// Finds batch `index`. All lanes of the warp take part.
__device__ inline Batch FindBatch(const int32_t* begins, int n_experts,
                                  int index) {
  const int lane = LaneIndex();
  for (int base = 0; base < n_experts; base += kWarpThreads) {
    const int expert = base + lane;
    const int first = expert < n_experts ? begins[expert] : 0;
    const int n_rows = expert < n_experts ? begins[expert + 1] - first : 0;
    const int n = (n_rows + kBatchRows - 1) / kBatchRows;
    int until = n;
    for (int step = 1; step < kWarpThreads; step *= 2) {
      const int before =
          __shfl_sync(kFullWarp, until, lane < step ? 0 : lane - step);
      if (lane >= step) until += before;
    }
    const int total = __shfl_sync(kFullWarp, until, kWarpThreads - 1);
    if (index >= total) {
      index -= total;
      continue;
    }
    const bool is_here = index < until && index >= until - n;
    const int which = WarpSum(is_here ? lane : 0);
    const int row = WarpSum(is_here ? index - (until - n) : 0) * kBatchRows;
    const int rows = __shfl_sync(kFullWarp, n_rows, which) - row;
    return {base + which, __shfl_sync(kFullWarp, first, which) + row,
            std::min(rows, int{kBatchRows})};
  }
  return {0, 0, 0};
}

// The product that block `index` of a batch works for; `index` becomes the
// block's index in it. `matrix` becomes the expert's.
__device__ inline Product ProductFor(const ExpertProducts& products,
                                     const Batch& batch, int64_t& index) {
  const int which = index < products.n_first_blocks ? 0 : 1;
  if (which == 1) index -= products.n_first_blocks;
  const ExpertProduct& product = products.of[which];
  Product mine = {product.first,
                  product.out + batch.first_place * product.first.rows, 0};
  mine.w.data += batch.expert * product.matrix_bytes;
  if (mine.w.scale != nullptr) mine.w.scale += batch.expert;
  return mine;
}

template <DType kType>
__global__ void __launch_bounds__(kProductThreads)
    MultiplyTilesOfExperts(ExpertProducts products, Activations x,
                           const int32_t* begins, int n_experts,
                           int64_t n_batches) {
  WaitForKernelsBefore();
  const Batch batch =
      FindBatch(begins, n_experts, static_cast<int>(blockIdx.x % n_batches));
  if (batch.n_rows == 0) return;
  int64_t index = blockIdx.x / n_batches;
  const Product product = ProductFor(products, batch, index);
  const auto row_tile = static_cast<int>(index);
  x.rows += int64_t{batch.first_place} * x.row_bytes;
  x.n_rows = batch.n_rows;
  constexpr int kBlockTiles = PlanesOf(kType).block_tiles;
  constexpr int kDepth = Depth(kType, 1);
  const int warp = WarpIndex();
  ActivationReader<1> rows;
  rows.Begin(x, 0, warp);
  TileReader<kType, 1> weights;
  weights.Begin(product.w, row_tile, warp);
  float sums[4] = {};
  int left =
      (static_cast<int>(product.w.at.col_tiles) - warp + kProductWarps - 1) /
      kProductWarps;
  RawTile<kType> next[kDepth];
#pragma unroll
  for (int d = 0; d < kDepth; ++d) {
    if (d < left) next[d] = weights.Load(0, d);
  }
  for (; left > 0; left -= kDepth) {
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      if (d >= left) break;
      const Tile<kType> tile = Unpack(next[d], warp % kBlockTiles);
      if (d + kDepth < left) next[d] = weights.Load(0, d + kDepth);
      Operands operands;
      operands.Load<!HasSignedQuants(kType)>(rows, 0, d);
      Accumulate<kType, false>(tile, operands, sums);
    }
    rows.Advance(kDepth);
    weights.Advance(kDepth);
  }
  AddWarps<4>(sums, reinterpret_cast<float*>(DynamicShared()));
  if (warp != 0) return;
  StoreSums<1>(sums, product,
               {.first_tile = row_tile,
                .first_row = 0,
                .n_rows = batch.n_rows,
                .accumulate = false});
}

template <DType kType>
__global__ void __launch_bounds__(kFloatThreads)
    MultiplyFloatsOfExperts(ExpertProducts products, FloatInput x,
                            const int32_t* begins, int n_experts,
                            int64_t n_batches) {
  WaitForKernelsBefore();
  const Batch batch =
      FindBatch(begins, n_experts, static_cast<int>(blockIdx.x % n_batches));
  if (batch.n_rows == 0) return;
  int64_t index = blockIdx.x / n_batches;
  const Product product = ProductFor(products, batch, index);
  x.x += batch.first_place * product.w.cols;
  x.n_rows = batch.n_rows;
  MultiplyFloatRows<kType, kBatchRows>(
      product.w, x, (index * kFloatWarps + WarpIndex()) * kFloatOutputs, 0,
      {product.out, product.w.rows, false});
}

// Copies the row at each place, `n_words` words a row.
__global__ void GatherRows(const int32_t* rows, const uint32_t* from,
                           int64_t n_words, uint32_t* to) {
  WaitForKernelsBefore();
  const int64_t place = blockIdx.x;
  const int64_t word = int64_t{blockIdx.y} * kElementThreads + ThreadIndex();
  if (word >= n_words) return;
  to[place * n_words + word] = from[rows[place] * n_words + word];
}

// Two products of experts, and what is done with them before they are
// activated.
struct ProductsToFinish {
  float* out[2];         // [places, dim]
  bool is_weighted;      // they are multiplied by the rows' weights first
  const float* bias[2];  // [n_experts, dim] each, or nullptr
};

// Block (i, y, z) takes the i-th of all rows' experts, the y-th kElementThreads
// columns of its outputs, and product z.
__global__ void FinishProducts(ExpertRows rows, ProductsToFinish products,
                               int64_t dim) {
  WaitForKernelsBefore();
  const int64_t i = blockIdx.x;
  const int64_t c = int64_t{blockIdx.y} * kElementThreads + ThreadIndex();
  if (c >= dim) return;
  float& out = products.out[blockIdx.z][rows.places[i] * dim + c];
  if (products.is_weighted) out *= rows.weights[i];
  const float* const bias = products.bias[blockIdx.z];
  if (bias != nullptr) out += bias[rows.experts[i] * dim + c];
}

__global__ void SumExperts(ExpertSumMatMulArgs args) {
  WaitForKernelsBefore();
  const ExpertRows& rows = args.rows;
  const int64_t dim = args.w.first.rows;
  const int64_t row = blockIdx.x;
  const int64_t c = int64_t{blockIdx.y} * kElementThreads + ThreadIndex();
  if (c >= dim) return;
  float sum = args.accumulate ? args.out[row * dim + c] : 0.0f;
  for (int64_t i = row * rows.n_used; i < (row + 1) * rows.n_used; ++i) {
    float output = args.products[rows.places[i] * dim + c];
    if (args.bias != nullptr) output += args.bias[rows.experts[i] * dim + c];
    sum = Fma(args.weights_outputs ? rows.weights[i] : 1.0f, output, sum);
  }
  args.out[row * dim + c] = sum;
}

int64_t BlocksOf(int64_t n_elements) {
  return (n_elements + kElementThreads - 1) / kElementThreads;
}

// A product's matrix and outputs.
struct WantedProduct {
  const ExpertMatrices* w;
  float* out;
};

// True if products by such matrices read packed rows.
bool ReadsPacked(const ExpertMatrices& w, const std::byte* packed) {
  return packed != nullptr && IsTiled(w.first.dtype);
}

// The rows of products, in the order of places.
struct Inputs {
  const float* x;
  const std::byte* packed;
};

// Multiplies rows by one matrix of each expert, or by two of the same type and
// size.
void Multiply(const Context& context, const ExpertRows& rows,
              const Inputs& inputs, std::span<const WantedProduct> products) {
  const WeightMatrix& first = products[0].w->first;
  const bool is_tiled = ReadsPacked(*products[0].w, inputs.packed);
  const int64_t block_outputs =
      is_tiled ? kTileRows : kFloatWarps * kFloatOutputs;
  ExpertProducts all = {};
  all.n_first_blocks = (first.rows + block_outputs - 1) / block_outputs;
  for (size_t i = 0; i < products.size(); ++i) {
    all.of[i] = {MatrixOf(products[i].w->first), products[i].w->matrix_bytes,
                 products[i].out};
  }
  const int64_t n_batches = NumBatches(rows);
  const Grid grid = {all.n_first_blocks * std::ssize(products) * n_batches};
  const auto n_experts = static_cast<int>(rows.n_experts);
  WithType(first.dtype, [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    if constexpr (IsTiled(kType)) {
      if (is_tiled) {
        constexpr int64_t kShared =
            int64_t{kProductWarps} / 2 * 4 * kWarpThreads * 4;
        const Activations input({.w = first,
                                 .x = nullptr,
                                 .packed = inputs.packed,
                                 .out = nullptr,
                                 .n_rows = rows.NumPlaces(),
                                 .accumulate = false});
        Launch(MultiplyTilesOfExperts<kType>, grid, kProductThreads, kShared,
               context.queue, all, input, rows.begins, n_experts, n_batches);
        return;
      }
    }
    Launch(MultiplyFloatsOfExperts<kType>, grid, kFloatThreads, 0,
           context.queue, all,
           FloatInputOf(inputs.x, rows.NumPlaces(), first.cols), rows.begins,
           n_experts, n_batches);
  });
}

// Gathers the rows as a product by `w` reads them.
void Gather(const Context& context, const GatedExpertMatMulArgs& args,
            const ExpertMatrices& w) {
  const int64_t cols = w.first.cols;
  const bool is_packed = ReadsPacked(w, args.packed);
  const void* const from =
      is_packed ? static_cast<const void*>(args.packed) : args.x;
  const int64_t n_words = is_packed ? PackedRowBytes(cols) / 4 : cols;
  Launch(GatherRows, {args.rows.NumPlaces(), BlocksOf(n_words)},
         kElementThreads, 0, context.queue, args.rows.rows,
         static_cast<const uint32_t*>(from), n_words,
         reinterpret_cast<uint32_t*>(args.gathered));
}

// Gathers the rows and multiplies them; the products read one form.
void MultiplyGathered(const Context& context, const GatedExpertMatMulArgs& args,
                      std::span<const WantedProduct> products) {
  Gather(context, args, *products[0].w);
  const bool is_packed = ReadsPacked(*products[0].w, args.packed);
  const auto* const floats = reinterpret_cast<const float*>(args.gathered);
  Multiply(context, args.rows,
           {.x = is_packed ? nullptr : floats,
            .packed = is_packed ? args.gathered : nullptr},
           products);
}

}  // namespace

void GatedExpertMatMul(const Context& context,
                       const GatedExpertMatMulArgs& args) {
  const WantedProduct products[2] = {{&args.gate, args.out},
                                     {&args.up, args.up_out}};
  if (args.gate.first.dtype == args.up.first.dtype) {
    MultiplyGathered(context, args, products);
  } else {
    MultiplyGathered(context, args, {&products[0], 1});
    MultiplyGathered(context, args, {&products[1], 1});
  }
  const int64_t dim = args.gate.first.rows;
  if (args.weights_inputs || args.gate_bias != nullptr ||
      args.up_bias != nullptr) {
    const ProductsToFinish products = {{args.out, args.up_out},
                                       args.weights_inputs,
                                       {args.gate_bias, args.up_bias}};
    Launch(FinishProducts, {args.rows.NumPlaces(), BlocksOf(dim), 2},
           kElementThreads, 0, context.queue, args.rows, products, dim);
  }
  GatedActivation(context, {.gate = args.out,
                            .up = args.up_out,
                            .out = args.out,
                            .n_rows = args.rows.NumPlaces(),
                            .dim = dim,
                            .activation = args.activation,
                            .packed = args.packed_out});
}

void ExpertSumMatMul(const Context& context, const ExpertSumMatMulArgs& args) {
  const WantedProduct product = {&args.w, args.products};
  Multiply(context, args.rows, {.x = args.x, .packed = args.packed},
           {&product, 1});
  const int64_t dim = args.w.first.rows;
  Launch(SumExperts, {args.rows.n_rows, BlocksOf(dim)}, kElementThreads, 0,
         context.queue, args);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
