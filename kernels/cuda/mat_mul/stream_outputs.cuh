// Handles the sums of products that stream weights (stream_tiles.cuh). The
// warps of a block keep their sums in shared memory. When there is no more
// room, or no more work, all threads of the block add the sums up and store the
// outputs.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_STREAM_OUTPUTS_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_STREAM_OUTPUTS_CUH_

#include "kernels/cuda/gated.cuh"
#include "kernels/cuda/mat_mul/stream_rows.cuh"
#include "kernels/cuda/pack.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// The work of a launch, beside its matrices. A unit of work is a row of tiles
// of outputs, or several.
struct StreamWork {
  StreamSlices slices;
  int32_t n_units;
  int32_t n_slots;  // slots of the ring
  // The number of blocks that share all units. If every block has one slice of
  // the columns, there are n_slices times as many blocks.
  int32_t n_groups;
  bool accumulate;
};

// Sums that a block has kept: those of `n` units from `first` on, each n_groups
// after the one before. If every block has one slice of the columns, they
// belong to slice `slice`.
struct KeptUnits {
  const float* sums;
  int slice;
  int first;
  int n;
};

// An output of a unit: number i / kRows, for row i % kRows.
struct UnitOutput {
  int unit;
  int i;
};

// The entries that a block keeps. An entry has the sums of all warps over one
// slice of the columns for one row of tiles.
template <int kRows>
struct Kept {
  static constexpr int kOutputs = static_cast<int>(kTileRows);
  static constexpr int kEntries = kRows == 1 ? kMostStreamSlices : 1;
  static constexpr int kOfWarp = kOutputs * kRows;
  static constexpr int kOfEntry = kProductWarps * kOfWarp;
  // While some threads still read the kept sums, others write the next ones.
  static constexpr int kBuffers = 2;
  static constexpr int64_t kBytes =
      int64_t{kBuffers} * kEntries * kOfEntry * int64_t{sizeof(float)};

  // Adds up the warps' sums of an output, in the order of AddWarps.
  __device__ static float Sum(const float* entry) {
    float sums[kProductWarps];
#pragma unroll
    for (int w = 0; w < kProductWarps; ++w) sums[w] = entry[w * kOfWarp];
#pragma unroll
    for (int stride = kProductWarps / 2; stride > 0; stride /= 2) {
#pragma unroll
      for (int w = 0; w < stride; ++w) sums[w] += sums[w + stride];
    }
    return sums[0];
  }
  // Adds up the sums of all slices, whose entries follow each other.
  __device__ static float SumOfSlices(const float* entry, int n_slices) {
    float sum = Sum(entry);
    for (int p = 1; p < n_slices; ++p) sum += Sum(entry + p * kOfEntry);
    return sum;
  }
};

// Outputs that are stored unchanged. A unit is a row of tiles. If there is more
// than one row of activations, every block has one slice of the columns.
template <int kRows>
struct PlainOutputs {
  static constexpr int kUnitTiles = 1;
  static constexpr bool kHasAll = kRows == 1;
  using Entries = Kept<kRows>;

  float* sums;      // [n_slices, n_units, outputs of a tile, rows]
  int32_t* counts;  // [n_groups], zeros

  // The row of tiles, of all products, that is tile `i` of a unit.
  __device__ static int RowTile(const Products& /*products*/, int unit,
                                int /*i*/) {
    return unit;
  }

  // Stores one output, unless its row is beyond the `n_rows` rows.
  __device__ static void Store(const Products& products, const StreamWork& work,
                               UnitOutput at, int n_rows, float sum) {
    const Product& product = FindProduct(products, at.unit);
    const int64_t output = at.unit * kTileRows + at.i / kRows;
    const int row = at.i % kRows;
    if (output >= product.w.rows || row >= n_rows) return;
    float& to = product.out[row * product.w.rows + output];
    const float scaled = sum * product.w.Scale();
    to = work.accumulate ? to + scaled : scaled;
  }

  __device__ float* SumsOf(const StreamWork& work, int slice, int unit) const {
    return sums + (int64_t{slice} * work.n_units + unit) * Entries::kOfWarp;
  }

  // Takes kept sums. Called by the warps that multiply.
  __device__ void Take(const Products& products, const StreamWork& work,
                       const KeptUnits& kept, int n_rows) const {
    const int n_slices = kHasAll ? work.slices.n_slices : 1;
    for (int at = ThreadIndex(); at < kept.n * Entries::kOfWarp;
         at += kProductThreads) {
      const int unit = kept.first + at / Entries::kOfWarp * work.n_groups;
      const int i = at % Entries::kOfWarp;
      const float* entry =
          kept.sums + at / Entries::kOfWarp * n_slices * Entries::kOfEntry + i;
      const float sum = Entries::SumOfSlices(entry, n_slices);
      if (kHasAll || work.slices.n_slices == 1) {
        Store(products, work, {unit, i}, n_rows, sum);
      } else {
        SumsOf(work, kept.slice, unit)[i] = sum;
      }
    }
  }

  // The last of the blocks that have the same units adds up the slices. Called
  // by all threads, with a word of shared memory.
  __device__ void End(const Products& products, const StreamWork& work,
                      int group, int n_rows, int32_t* word) const {
    const int n_slices = work.slices.n_slices;
    if (kHasAll || n_slices == 1) return;
    if (!IsLastToArrive(counts + group, n_slices, word)) return;
    const int n_units =
        (work.n_units - group + work.n_groups - 1) / work.n_groups;
    for (int at = ThreadIndex(); at < n_units * Entries::kOfWarp;
         at += BlockThreads()) {
      const int unit = group + at / Entries::kOfWarp * work.n_groups;
      const int i = at % Entries::kOfWarp;
      float of_slices[kMostStreamSlices];
#pragma unroll
      for (int p = 0; p < kMostStreamSlices; ++p) {
        if (p < n_slices) of_slices[p] = LoadWritten(SumsOf(work, p, unit) + i);
      }
      float sum = of_slices[0];
#pragma unroll
      for (int p = 1; p < kMostStreamSlices; ++p) {
        if (p < n_slices) sum += of_slices[p];
      }
      Store(products, work, {unit, i}, n_rows, sum);
    }
  }
};

// Outputs of one row that are the activation of the first product times the
// second one, packed. A unit is a block of packed values: two rows of tiles of
// both products.
struct GatedOutputs {
  static constexpr int kUnitTiles = 4;
  static constexpr bool kHasAll = true;
  using Entries = Kept<1>;

  std::byte* packed;
  Activation activation;

  __device__ static int RowTile(const Products& products, int unit, int i) {
    return i / 2 * products.of[0].end + unit * 2 + i % 2;
  }

  // A warp packs a unit.
  __device__ void Take(const Products& products, const StreamWork& work,
                       const KeptUnits& kept, int /*n_rows*/) const {
    const int n_slices = work.slices.n_slices;
    const int lane = LaneIndex();
    for (int u = WarpIndex(); u < kept.n; u += kProductWarps) {
      const auto product = [&](int which) {
        const int entry = u * kUnitTiles + which * 2 + lane / 16;
        return Entries::SumOfSlices(
                   kept.sums + entry * n_slices * Entries::kOfEntry + lane % 16,
                   n_slices) *
               products.of[which].w.Scale();
      };
      PackBlock(Gated(product(0), product(1), activation),
                products.of[0].w.rows, kept.first + u * work.n_groups, packed);
    }
  }
  __device__ void End(const Products&, const StreamWork&, int, int,
                      int32_t*) const {}
};

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_STREAM_OUTPUTS_CUH_
