// Divides a product of few rows among blocks of threads: pure arithmetic. The
// division depends on the matrices, the device and the kernel's number of rows.
// It does not depend on the rows of a step, so that a row's bits are the same
// in every step of a kernel.
//
// The columns are cut into slices. A block has one slice, whose activations it
// keeps in shared memory, and some of the quads: four neighbouring tiles of
// outputs, which a warpgroup multiplies. So each slice adds one block's part to
// a quad's sums.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_FEW_SPLIT_H_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_FEW_SPLIT_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/mat_mul/wgmma_layout.h"
#include "kernels/cuda/weight_layout.h"

namespace plimsoll::kernels {

inline constexpr int kQuadTiles = 4;
inline constexpr int kFewGroups = 4;  // warpgroups of a block
inline constexpr int kFewWarps = kFewGroups * kQuadTiles;
// Shared memory of a block. The rest is left for the small kernels that
// overlap.
inline constexpr int64_t kFewSharedBytes = int64_t{216} << 10;
inline constexpr int64_t kMostRingSlots = 8;
inline constexpr int64_t kMostFewSlices = 64;
// The fewest stages of a slice, of 64 columns each, if the matrix has that
// many.
inline constexpr int64_t kFewestStages = 8;
// The powers of rows, and the barriers of warps.
inline constexpr int64_t kFewFixedBytes =
    64 * 4 + kFewWarps * kMostRingSlots * 8;

// The tiles of a slot of a warp's ring: whole blocks of columns, about 2 KiB.
constexpr int64_t RingTiles(DType type) {
  return PlanesOf(type).quants > 256 ? 4 : 8;
}
constexpr int64_t RingSlotBytes(DType type) {
  return LayOut(type, kTileRows, RingTiles(type) * kTileCols).bytes;
}
// Columns of tiles that are whole blocks and whole stages.
constexpr int64_t UnitTiles(DType type) {
  return std::max<int64_t>(PlanesOf(type).block_tiles, 2);
}

// Divides `n` things among `shares`: the first shares get one more if
// necessary.
struct EvenShares {
  int32_t each = 0;
  int32_t more = 0;  // shares that have one more

  constexpr EvenShares() = default;
  constexpr EvenShares(int64_t n, int64_t shares)
      : each(static_cast<int32_t>(n / shares)),
        more(static_cast<int32_t>(n % shares)) {}
  constexpr int32_t First(int32_t share) const {
    return share * each + (share < more ? share : more);
  }
  constexpr int32_t Most() const { return each + (more > 0 ? 1 : 0); }
};

struct FewSplit {
  int32_t n_slices = 0;  // 0: no division is possible
  int32_t n_blocks = 0;  // blocks of a slice
  EvenShares units;      // a slice's units of UnitTiles columns of tiles
  EvenShares quads;      // a block's quads
  int32_t n_slots = 0;   // slots of a warp's ring
};

constexpr int64_t FewStageBytes(int64_t rows) {
  return rows * kSwizzleRowBytes;
}
// The scales of a stage's packed activations: two columns of tiles.
constexpr int64_t FewScaleBytes(int64_t rows) { return rows * 2 * 4; }

// Returns the number of slots that fit beside the activations of `n_stages`
// stages, or 0 if these are too few to keep about 48 KiB of a block's weights
// on the way.
constexpr int64_t SlotsBeside(DType type, int64_t rows, int64_t n_stages) {
  constexpr int64_t kBytesOnTheWay = int64_t{48} << 10;
  const int64_t all = kFewWarps * RingSlotBytes(type);
  const int64_t left = kFewSharedBytes - kFewFixedBytes -
                       n_stages * (FewStageBytes(rows) + FewScaleBytes(rows));
  const int64_t fewest = (kBytesOnTheWay + all - 1) / all + 1;
  const int64_t n_slots = left < 0 ? 0 : left / all;
  return n_slots < fewest ? 0 : std::min(n_slots, kMostRingSlots);
}

// Products of few rows, and the device that they are divided for.
struct FewProducts {
  DType type = DType::kF32;
  int64_t rows = 0;       // rows that the kernel takes at once
  int64_t n_quads = 0;    // quads of outputs
  int64_t col_tiles = 0;  // columns of tiles
  int64_t n_multiprocessors = 0;
};

// A division of products into slices.
struct FewDivision {
  int64_t n_slices = 1;
  int64_t n_blocks = 1;  // blocks of a slice
  int64_t n_stages = 0;  // stages that a block has for each of its quads
};

// The time of a division into slices. The unit is the time in which memory
// delivers a quad's stage of 64 columns. The ratios are estimates. A last round
// in which only one of a block's warpgroups works takes as long as a round with
// two. Activations come from the L2 cache, once for a block. Sums are written
// there and read back, and the last warp reads several slices at a time.
constexpr double TimeOf(const FewProducts& products,
                        const FewDivision& division) {
  const auto [n_slices, n_blocks, n_stages] = division;
  const int64_t n_quads = products.n_quads;
  const int64_t n_multiprocessors = products.n_multiprocessors;
  const int64_t quads = (n_quads + n_blocks - 1) / n_blocks;
  const int64_t rounded = quads % kFewGroups == 1 ? quads + 1 : quads;
  const int64_t waves =
      (n_blocks * n_slices + n_multiprocessors - 1) / n_multiprocessors;
  const double of_rows = static_cast<double>(products.rows) / 32.0;
  const double block = static_cast<double>(rounded * n_stages) +
                       1.25 * of_rows * static_cast<double>(n_stages);
  double time = static_cast<double>(waves) * block;
  if (n_slices > 1) {
    time += static_cast<double>(n_slices) *
            (4.0 + 2.9 * of_rows * static_cast<double>(n_quads) /
                       static_cast<double>(n_multiprocessors));
  }
  return time;
}

// The number of slices that a division may have.
struct FewSlicesRule {
  int64_t wanted = 0;  // 0: the estimated best number
  int64_t most = kMostFewSlices;
};

// Divides the quads of `products` among the device's multiprocessors.
constexpr FewSplit SplitFew(const FewProducts& products,
                            const FewSlicesRule& rule) {
  const int64_t n_quads = products.n_quads;
  const int64_t unit = UnitTiles(products.type);
  const int64_t n_units = products.col_tiles / unit;
  const int64_t most_slices = std::min({n_units, rule.most, kMostFewSlices});
  FewSplit best = {};
  double least = 0;
  for (int64_t slices = 1; slices <= most_slices; ++slices) {
    const int64_t stages = (n_units + slices - 1) / slices * unit / 2;
    const int64_t n_slots = SlotsBeside(products.type, products.rows, stages);
    if (n_slots == 0) continue;
    const int64_t blocks =
        std::clamp<int64_t>(products.n_multiprocessors / slices, 1, n_quads);
    const double time = TimeOf(
        products, {.n_slices = slices, .n_blocks = blocks, .n_stages = stages});
    if (best.n_slices > 0) {
      const bool is_short = products.col_tiles / 2 / slices < kFewestStages;
      if (rule.wanted > 0 ? slices > rule.wanted : is_short) break;
      if (rule.wanted == 0 && time >= least) continue;
    }
    least = time;
    best = {static_cast<int32_t>(slices), static_cast<int32_t>(blocks),
            EvenShares(n_units, slices), EvenShares(n_quads, blocks),
            static_cast<int32_t>(n_slots)};
  }
  return best;
}

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_FEW_SPLIT_H_
