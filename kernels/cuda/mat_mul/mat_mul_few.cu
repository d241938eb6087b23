// Products of few rows (9 to 64) in F16 with the instructions of a warpgroup,
// made to read weights as fast as memory brings them. What is rounded, and the
// order of a sum's columns, are as in mat_mul_wgmma.cu.
//
// A block of threads has a slice of the columns (few_split.h). It rounds the
// slice's activations once, into shared memory, and keeps them there. Its
// warpgroups multiply one quad of tiles of outputs after another. Weights go
// through shared memory (warp_ring.cuh); their copies begin before the kernels
// before have ended. Each warp rounds its own tile of weights in registers.
// Where columns are cut into several slices, the warp that comes last to a tile
// adds up what all slices have, in the order of the columns.
#include <algorithm>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/mat_mul/half_tiles.cuh"
#include "kernels/cuda/mat_mul/warp_ring.cuh"
#include "kernels/cuda/mat_mul/wgmma.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = kFewWarps * kWarpThreads;
// A bound of this many threads limits each thread to 96 registers. That leaves
// room for a block of a small kernel that overlaps.
[[maybe_unused]] constexpr int kBoundThreads = 576;
constexpr int kFewRows = 32;
constexpr int kSomeRows = 64;
static_assert(kFewSharedBytes <= kMostSharedBytes);
static_assert(kFewFixedBytes % 128 == 0);  // so slots are aligned

// What a block does: its slice's columns of tiles and its quads.
struct Share {
  int slice;
  int first_tile;
  int n_tiles;
  int first_quad;
  int end_quad;

  __device__ Share(const FewSplit& split, int unit_tiles) {
    slice = static_cast<int>(blockIdx.x);
    const auto block = static_cast<int>(blockIdx.y);
    first_tile = split.units.First(slice) * unit_tiles;
    n_tiles = split.units.First(slice + 1) * unit_tiles - first_tile;
    first_quad = split.quads.First(block);
    end_quad = split.quads.First(block + 1);
  }
};

// The block's shared memory: activations, stage after stage of 64 columns, the
// scales of their rows, the powers of the rows, the barriers of all warps, and
// the slots.
template <int kRows>
struct Places {
  std::byte* stages;
  float* scales;  // row after row, `pitch` tiles of each
  int pitch;
  float* powers;
  std::byte* barriers;
  std::byte* slots;

  __device__ Places(std::byte* shared, int most_stages)
      : stages(shared),
        scales(reinterpret_cast<float*>(shared +
                                        most_stages * FewStageBytes(kRows))),
        pitch(most_stages * 2),
        powers(scales + pitch * kRows),
        barriers(reinterpret_cast<std::byte*>(powers + kSomeRows)),
        slots(barriers +
              kFewWarps * kMostRingSlots * int64_t{sizeof(Barrier)}) {}

  template <DType kType>
  __device__ WarpRing<kType> Ring(int n_slots) const {
    const int warp = WarpIndex();
    return {reinterpret_cast<uint8_t*>(
                slots + warp * n_slots * WarpRing<kType>::kSlot.bytes),
            reinterpret_cast<Barrier*>(barriers) + warp * kMostRingSlots,
            n_slots};
  }
};

// ---- Activations -----------------------------------------------------------

// 1 / power of a power of two that PowerAbove returns.
__device__ inline float InverseOfPower(float power) {
  constexpr uint32_t kTwiceOne = 254u << 23;  // 1 has the exponent 127
  return FloatOfBits(kTwiceOne - BitsOfFloat(power));
}

// Two rows of the slice's activations, which a warp rounds. Their integers come
// to where the rounded ones will be. Rows beyond the end are left as they are:
// nobody reads their sums.
template <int kRows>
struct RowPair {
  static constexpr int kStage = static_cast<int>(FewStageBytes(kRows));
  const Places<kRows>& places;
  int first;  // row
  int n_rows;

  __device__ void Start(const Activations& x, const Share& share) const {
    const int lane = LaneIndex();
    const auto row_at = [&](int row) {
      return x.rows + int64_t{row} * x.row_bytes;
    };
    if (const int row = first + lane / 8 % 2; row < n_rows) {
      const int chunk = lane % 8;
      const std::byte* from =
          row_at(row) + (share.first_tile * static_cast<int>(kTileCols * 2) +
                         lane / 16 * kSwizzleRowBytes + chunk * kCopyBytes);
      std::byte* to =
          places.stages + (lane / 16 * kStage + SwizzledByte(row, chunk));
#pragma unroll 4
      for (int stage = lane / 16; stage < share.n_tiles / 2; stage += 2) {
        StartCopy(to, from);
        from += 2 * kSwizzleRowBytes;
        to += 2 * kStage;
      }
    }
    if (const int row = first + lane / 16; row < n_rows) {
      const std::byte* from = row_at(row) + x.scales + share.first_tile * 4;
      float* to = places.scales + row * places.pitch;
#pragma unroll 1
      for (int tile = lane % 16; tile < share.n_tiles; tile += 16) {
        StartCopy<4>(reinterpret_cast<std::byte*>(to + tile), from + tile * 4);
      }
    }
  }

  // Waits for what has been started, and rounds it. Four lanes have the 64
  // columns of a row and stage, the next four those of the other row, so that
  // eight lanes have different banks.
  __device__ void Round(int n_tiles) const {
    const int lane = LaneIndex();
    const int quarter = lane % 4;
    const int row = first + lane / 4 % 2;
    const float* scales = places.scales + row * places.pitch;
    float largest = 0;  // fmaxf drops the scales that are not numbers
#pragma unroll 1
    for (int tile = lane / 8 * 4 + quarter; row < n_rows && tile < n_tiles;
         tile += 16) {
      largest = fmaxf(largest, scales[tile]);
    }
#pragma unroll
    for (const int other : {1, 2, 8, 16}) {
      largest = fmaxf(largest, __shfl_xor_sync(kFullWarp, largest, other));
    }
    const float power = PowerAbove(largest);
    if (row >= n_rows) return;
    if (quarter == 0) places.powers[row] = power;
    const float inverse = InverseOfPower(power);
    std::byte* at = places.stages + lane / 8 * kStage;
    const int to_even = SwizzledByte(row, 2 * quarter);
    const int to_odd = SwizzledByte(row, 2 * quarter + 1);
#pragma unroll 1
    for (int stage = lane / 8; stage < n_tiles / 2; stage += 4) {
      const float scale = scales[stage * 2 + quarter / 2] * inverse;
      auto& even = *reinterpret_cast<uint4*>(at + to_even);
      auto& odd = *reinterpret_cast<uint4*>(at + to_odd);
      const uint4 low = even;
      const uint4 high = odd;
      even = {Pair(low.x, low.y, 0, scale), Pair(low.z, low.w, 0, scale),
              Pair(high.x, high.y, 0, scale), Pair(high.z, high.w, 0, scale)};
      odd = {Pair(low.x, low.y, 16, scale), Pair(low.z, low.w, 16, scale),
             Pair(high.x, high.y, 16, scale), Pair(high.z, high.w, 16, scale)};
      at += 4 * kStage;
    }
  }

  // The low (shift 0) or the high integers (16) of two words, in F16.
  __device__ static uint32_t Pair(uint32_t a, uint32_t b, int shift,
                                  float scale) {
    const auto value = [&](uint32_t word) {
      return RoundedRow::Value(static_cast<uint16_t>(word >> shift), scale);
    };
    return PackHalves(value(a), value(b));
  }
};

template <int kRows>
__device__ void RoundRows(const Activations& x, const Share& share,
                          const Places<kRows>& places) {
  constexpr int kPairs = kRows / 2 / kFewWarps;
#pragma unroll 1
  for (int i = 0; i < kPairs; ++i) {
    const int row = (WarpIndex() + i * kFewWarps) * 2;
    RowPair<kRows>{places, row, x.n_rows}.Start(x, share);
  }
  CommitCopies();
  WaitForCopies<0>();
  __syncwarp();
#pragma unroll 1
  for (int i = 0; i < kPairs; ++i) {
    const int row = (WarpIndex() + i * kFewWarps) * 2;
    RowPair<kRows>{places, row, x.n_rows}.Round(share.n_tiles);
  }
}

// ---- Weights ---------------------------------------------------------------

// A warp's tile of a quad.
struct QuadTile {
  const Product* product;
  int row_tile;  // in the product; may be beyond its end

  __device__ QuadTile(const Products& products, int quad) {
    product = &FindProduct(products, quad);
    row_tile = quad * kQuadTiles + WarpIndex() % kQuadTiles;
  }
  __device__ bool IsInProduct() const {
    return row_tile < product->w.at.row_tiles;
  }
};

// The copies that a warp starts, slot after slot of all its quads. Only its
// first lane copies.
template <DType kType>
struct WarpCopies {
  using Ring = WarpRing<kType>;
  TileRun<kType> run;
  int quad;
  int left;  // tiles of the quad
  int slot = 0;

  __device__ void Begin(const Products& products, const Share& share,
                        int first_quad) {
    quad = first_quad;
    BeginQuad(products, share);
  }
  __device__ void BeginQuad(const Products& products, const Share& share) {
    left = share.n_tiles;
    if (quad >= share.end_quad) return;
    const QuadTile tile(products, quad);
    // Tiles beyond the end repeat the last one.
    const auto last = static_cast<int>(tile.product->w.at.row_tiles) - 1;
    run.Begin(tile.product->w, std::min(tile.row_tile, last), share.first_tile);
  }
  __device__ void Next(const Products& products, const Share& share,
                       const Ring& ring) {
    if (quad >= share.end_quad) return;
    ring.Copy(run, slot, std::min(left, int{Ring::kTiles}));
    if (++slot == ring.n_slots) slot = 0;
    left -= Ring::kTiles;
    if (left > 0) return;
    quad += kFewGroups;
    BeginQuad(products, share);
  }
};

// ---- Sums ------------------------------------------------------------------

// What the slices store for each other: for each tile of outputs and slice,
// four sums of each lane for each group of rows.
struct FewSlices {
  float4* sums;     // [tiles, slices, groups, lanes]
  int32_t* counts;  // [quads], zeros; a byte for each tile
};

// A warp's sums of its tiles.
template <int kRows>
struct QuadSums {
  static constexpr int kGroups = kRows / kGroupRows;
  static constexpr int kSums = WgmmaSums(kRows);
  const FewSlices& slices;
  int n_slices;
  int n_rows;

  // Where a lane has what the slices stored for its tile of a quad.
  __device__ float4* At(int quad, int slice) const {
    const int tile = quad * kQuadTiles + WarpIndex() % kQuadTiles;
    return slices.sums +
           (int64_t{tile} * n_slices + slice) * (kGroups * kWarpThreads) +
           LaneIndex();
  }
  __device__ void StoreSlice(int quad, int slice,
                             const float (&mine)[kSums]) const {
    float4* to = At(quad, slice);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (g * kGroupRows >= n_rows) break;
      to[g * kWarpThreads] = {mine[4 * g], mine[4 * g + 1], mine[4 * g + 2],
                              mine[4 * g + 3]};
    }
  }

  // Tells that this slice's sums of a quad are there. True in the warp that
  // comes last to its tile: it sees what all slices have stored.
  __device__ bool IsLast(int quad) const {
    const int shift = WarpIndex() % kQuadTiles * 8;
    __syncwarp();
    int32_t count = 0;
    if (LaneIndex() == 0) {
      count = FetchAndAddInOrder(slices.counts + quad, 1 << shift);
    }
    count = __shfl_sync(kFullWarp, count, 0);
    if ((count >> shift & 255) != n_slices - 1) return false;
    if (LaneIndex() == 0) {
      FetchAndAdd(slices.counts + quad, -(n_slices << shift));
    }
    return true;
  }

  // Adds up the stored sums of all slices, in the order of the columns.
  __device__ void Add(int quad, float (&sums)[kSums]) const {
    constexpr int kAtOnce = kRows == kFewRows ? 3 : 1;
    const float4* from = At(quad, 0);
#pragma unroll
    for (float& sum : sums) sum = 0;
#pragma unroll 1
    for (int left = n_slices; left > 0; left -= kAtOnce) {
      float4 four[kAtOnce][kGroups] = {};
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          if (p >= left || g * kGroupRows >= n_rows) continue;
          four[p][g] = LoadWritten(from + (p * kGroups + g) * kWarpThreads);
        }
      }
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          sums[4 * g] += four[p][g].x;
          sums[4 * g + 1] += four[p][g].y;
          sums[4 * g + 2] += four[p][g].z;
          sums[4 * g + 3] += four[p][g].w;
        }
      }
      from += kAtOnce * kGroups * kWarpThreads;
    }
  }

  // Stores the sums of a tile, scaled, or adds them to the outputs. If there
  // are several slices, it adds up theirs first.
  __device__ void Store(float (&sums)[kSums], const Products& products,
                        int quad, bool accumulate) const {
    const QuadTile tile(products, quad);
    if (!tile.IsInProduct()) return;
    if (n_slices > 1 && !IsLast(quad)) return;
    const Product& product = *tile.product;
    const float scale = product.w.Scale();
    const auto n_outputs = static_cast<uint32_t>(product.w.rows);
    const auto output = static_cast<uint32_t>(
        tile.row_tile * static_cast<int>(kTileRows) + LaneIndex() / 4);
    const int row = LaneIndex() % 4 * 2;
    const uint32_t first = static_cast<uint32_t>(row) * n_outputs + output;
    // The rows from this one on, of each of the lane's two outputs.
    const int rows_of[2] = {output < n_outputs ? n_rows - row : 0,
                            output + 8 < n_outputs ? n_rows - row : 0};
    const auto row_of = [](int i) { return i / 4 * kGroupRows + i % 2; };
    const auto has = [&](int i) { return row_of(i) < rows_of[i / 2 % 2]; };
    const auto at = [&](int i) {
      return product.out +
             (first + static_cast<uint32_t>(row_of(i)) * n_outputs +
              static_cast<uint32_t>(i / 2 % 2 * 8));
    };
    float before[kSums] = {};
    const auto load = [&] {
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        if (accumulate && has(i)) before[i] = *at(i);
      }
    };
    // All loads come before the first store, and if there are registers for
    // them, before those of the slices.
    if constexpr (kRows == kFewRows) load();
    if (n_slices > 1) Add(quad, sums);
    if constexpr (kRows != kFewRows) load();
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const float sum = sums[i] * scale;
      if (has(i)) *at(i) = accumulate ? before[i] + sum : sum;
    }
  }
};

// ---- Products --------------------------------------------------------------

// Multiplies the tiles of a slot, two columns of them at a time.
template <DType kType, int kRows>
struct SlotProducts {
  using Ring = WarpRing<kType>;
  static constexpr int kSums = WgmmaSums(kRows);
  static constexpr int kTiles = Ring::kTiles;
  // All descriptors of rows in shared memory have this half.
  static constexpr uint64_t kHighHalf = WgmmaDescriptor(0, 0) >> 32;
  TileReader<kType, 1, true> weights;
  uint32_t rows;  // the low half of the descriptor of the slot's first columns

  // Multiplies columns `first` and `first + 1` of tiles. The products before
  // still read other tiles.
  __device__ void Multiply(int first, uint32_t at,
                           const BlockScales<kType>& scales,
                           float (&sums)[kSums], HalfTile (&tiles)[2]) const {
    constexpr int kShare = PlanesOf(kType).block_tiles;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const RawTile<kType> raw =
          weights.LoadTile(0, static_cast<uint32_t>(first + c));
      tiles[c] = RoundTile<kType>(raw, scales, (first + c) % kShare);
    }
    constexpr int kStepChunks = kWgmmaColumns * 2 / kSwizzleChunkBytes;
    BeginProducts();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      MultiplyGroup<kRows>(
          tiles[i / 2].a[i % 2],
          kHighHalf << 32 | (at + static_cast<uint32_t>(i * kStepChunks)),
          sums);
    }
    CommitProducts();
    AwaitProducts<1>();
  }

  // Multiplies the first `n` columns of tiles, whole stages.
  __device__ void MultiplyAll(int n, float (&sums)[kSums],
                              HalfTile (&tiles)[2][2]) const {
    const BlockScales<kType> scales(weights.LoadTile(0, 0));
    constexpr auto kStage = static_cast<uint32_t>(FewStageBytes(kRows) >> 4);
    // The exchange tells the compiler that all lanes have the same number.
    const uint32_t at = __shfl_sync(kFullWarp, rows, 0);
    // Slots of types with long blocks are always full.
    if (kTiles == UnitTiles(kType) || n == kTiles) {
#pragma unroll
      for (int i = 0; i < kTiles; i += 2) {
        Multiply(i, at + static_cast<uint32_t>(i / 2) * kStage, scales, sums,
                 tiles[i / 2 % 2]);
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < n; i += 2) {
        Multiply(i, at + static_cast<uint32_t>(i / 2) * kStage, scales, sums,
                 tiles[0]);
        AwaitProducts<0>();
      }
    }
  }
};

// The most stages that a block has for each of its quads.
template <DType kType>
constexpr int32_t MostStages(const FewSplit& split) {
  return split.units.Most() * static_cast<int32_t>(UnitTiles(kType) / 2);
}

template <DType kType, int kRows>
__global__ void __launch_bounds__(kBoundThreads, 1)
    MultiplyQuads(const __grid_constant__ Products products, Activations x,
                  FewSplit split, FewSlices slices, bool accumulate) {
  using Ring = WarpRing<kType>;
  constexpr int kGroups = kRows / kGroupRows;
  constexpr int kTiles = Ring::kTiles;
  LetNextKernelBegin();
  const Share share(split, static_cast<int>(UnitTiles(kType)));
  const Places<kRows> places(DynamicShared(), MostStages<kType>(split));
  const Ring ring = places.template Ring<kType>(split.n_slots);
  const int first_quad = share.first_quad + WarpIndex() / kQuadTiles;
  WarpCopies<kType> copies;
  copies.Begin(products, share, first_quad);
  if (IsElected()) {
    ring.Init();
#pragma unroll 1
    for (int i = 0; i < split.n_slots; ++i) copies.Next(products, share, ring);
  }
  WaitForKernelsBefore();
  RoundRows<kRows>(x, share, places);
  PublishShared();
  __syncthreads();
  const QuadSums<kRows> of_quads = {slices, split.n_slices, x.n_rows};
  SlotCursor at;
  const auto rows =
      static_cast<uint32_t>(WgmmaDescriptor(SharedAddress(places.stages), 0));
  float sums[WgmmaSums(kRows)];
  for (int quad = first_quad;; quad += kFewGroups) {
    // The sums of the quad before. With several slices they are stored, and
    // by now others may see them without a long wait.
    if (quad > first_quad) {
      of_quads.Store(sums, products, quad - kFewGroups, accumulate);
    }
    if (quad >= share.end_quad) break;
#pragma unroll
    for (float& sum : sums) sum = 0;
    HalfTile tiles[2][2] = {};
    for (int first = 0; first < share.n_tiles; first += kTiles) {
      WaitFor(ring.full + at.slot, at.phase);
      const auto before =
          static_cast<uint32_t>(first / 2 * (FewStageBytes(kRows) >> 4));
      const SlotProducts<kType, kRows> slot = {ring.Reader(at.slot),
                                               rows + before};
      slot.MultiplyAll(std::min(share.n_tiles - first, kTiles), sums, tiles);
      __syncwarp();
      if (IsElected()) copies.Next(products, share, ring);
      at.Advance(split.n_slots);
    }
    AwaitProducts<0>();
    KeepSums(sums);
    ScaleSums<kGroups>(places.powers, 0, sums);
    if (split.n_slices > 1) of_quads.StoreSlice(quad, share.slice, sums);
  }
}

constexpr int64_t RowsOf(int64_t n_rows) {
  return n_rows > kFewRows ? kSomeRows : kFewRows;
}

FewSplit SplitOf(const Context& context, std::span<const MatMulArgs> products) {
  const MatMulArgs& first = products.front();
  const int64_t rows = RowsOf(first.n_rows);
  int64_t n_quads = 0;
  ProductsOf(products, kQuadTiles, n_quads);
  const int64_t quad_bytes = kQuadTiles * kTileRows * rows * 4;
  if (n_quads > kCounts) return {};
  return SplitFew({.type = first.w.dtype,
                   .rows = rows,
                   .n_quads = n_quads,
                   .col_tiles = first.w.cols / kTileCols,
                   .n_multiprocessors = context.n_multiprocessors},
                  {.wanted = context.few_row_slices,
                   .most = kScratchBytes / (n_quads * quad_bytes)});
}

template <DType kType, int kRows>
void LaunchQuads(const Context& context, std::span<const MatMulArgs> products,
                 const FewSplit& split) {
  const MatMulArgs& first = products.front();
  int64_t n_quads = 0;
  const Products all = ProductsOf(products, kQuadTiles, n_quads);
  const int64_t shared =
      MostStages<kType>(split) * (FewStageBytes(kRows) + FewScaleBytes(kRows)) +
      kFewFixedBytes + kFewWarps * split.n_slots * RingSlotBytes(kType);
  const FewSlices slices = {.sums = reinterpret_cast<float4*>(context.scratch),
                            .counts = context.counts};
  Launch(MultiplyQuads<kType, kRows>, {split.n_slices, split.n_blocks},
         kThreads, shared, context.queue, all, Activations(first), split,
         slices, first.accumulate);
}

}  // namespace

bool MultiplyFewRows(const Context& context,
                     std::span<const MatMulArgs> products) {
  const MatMulArgs& first = products.front();
  if (!context.streams_few_rows || !IsTiled(first.w.dtype) ||
      first.n_rows > kSomeRows) {
    return false;
  }
  const FewSplit split = SplitOf(context, products);
  if (split.n_slices == 0) return false;
  WithType(first.w.dtype, [&](auto type) {
    constexpr DType kType = decltype(type)::value;
    if constexpr (IsTiled(kType)) {
      if (RowsOf(first.n_rows) == kFewRows) {
        LaunchQuads<kType, kFewRows>(context, products, split);
      } else {
        LaunchQuads<kType, kSomeRows>(context, products, split);
      }
    }
  });
  return true;
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA
