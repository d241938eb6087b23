// Products of few rows (9 to 64) in F16 with the instructions of a warpgroup,
// made to read weights as fast as memory brings them. What is rounded, and the
// order of a sum's columns, are as in mat_mul_wgmma.cu.
//
// A block of threads has a part of the columns (few_split.h). It rounds the
// part's activations once, into shared memory, and keeps them there. Its
// warpgroups multiply one quad of tiles of outputs after another. Weights go
// through shared memory (warp_ring.cuh); their copies begin before the kernels
// before have ended. Each warp rounds its own tile of weights in registers.
// Where columns are cut into several parts, the warp that comes last to a tile
// adds up what all parts have, in the order of the columns.
#include <algorithm>

#include "kernels/cuda/mat_mul/half_tiles.cuh"
#include "kernels/cuda/mat_mul/warp_ring.cuh"
#include "kernels/cuda/mat_mul/wgmma.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {
namespace {

constexpr int kThreads = kFewWarps * kWarpThreads;
// With so many threads one would have 96 registers. That leaves room for a
// block of a small kernel that overlaps.
[[maybe_unused]] constexpr int kBoundThreads = 576;
constexpr int kFewRows = 32;
constexpr int kSomeRows = 64;
static_assert(kFewSharedBytes <= kMostSharedBytes);
static_assert(kFewFixedBytes % 128 == 0);  // so slots are aligned

// What a block does: its part's columns of tiles and its quads.
struct Share {
  int part;
  int first_tile;
  int n_tiles;
  int first_quad;
  int end_quad;

  __device__ Share(const FewSplit& split, int unit_tiles) {
    part = static_cast<int>(blockIdx.x);
    const auto block = static_cast<int>(blockIdx.y);
    first_tile = split.FirstUnit(part) * unit_tiles;
    n_tiles = split.FirstUnit(part + 1) * unit_tiles - first_tile;
    first_quad = split.FirstQuad(block);
    end_quad = split.FirstQuad(block + 1);
  }
};

// The block's shared memory: activations, stage after stage of 64 columns, then
// the powers of their rows, the barriers of all warps, and the slots.
template <DType kType, int kRows>
struct Places {
  std::byte* stages;
  float* powers;
  std::byte* barriers;
  std::byte* slots;

  __device__ Places(std::byte* shared, int most_stages)
      : stages(shared),
        powers(reinterpret_cast<float*>(shared +
                                        most_stages * FewStageBytes(kRows))),
        barriers(reinterpret_cast<std::byte*>(powers + kSomeRows)),
        slots(barriers +
              kFewWarps * kMostRingSlots * int64_t{sizeof(Barrier)}) {}

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

// Rounds a warp's two rows of the part's activations. A lane takes eight
// columns of a row at a time. Eight lanes have the first row, the next eight
// the second one, so that 16 lanes store to different banks. Rows beyond the
// end are left as they are: nobody reads their sums.
template <int kRows>
struct RowRounder {
  static constexpr int kAtOnce = 8;  // a lane's loads on the way
  const std::byte* values;           // this lane's, of the part's first stage
  const std::byte* scales;
  int row;
  bool is_row;
  int piece;  // the eight columns of a stage
  int stage;  // the first stage of this lane

  __device__ RowRounder(const Activations& x, const Share& share,
                        int row_pair) {
    const int lane = LaneIndex();
    row = row_pair * 2 + lane / 8 % 2;
    is_row = row < x.n_rows;
    piece = lane % 8;
    stage = lane / 16;
    const std::byte* from = x.rows + int64_t{is_row ? row : 0} * x.row_bytes;
    values =
        from + share.first_tile * static_cast<int>(kTileCols * 2) + piece * 16;
    scales = from + x.scales + share.first_tile * 4;
  }

  // The row's power of two for the part.
  __device__ float Power(int n_tiles) const {
    float largest = 0;  // fmaxf drops the scales that are not numbers
    for (int i = stage * 8 + piece; is_row && i < n_tiles; i += 16) {
      largest = fmaxf(largest, FloatAt(scales, int64_t{i} * 4));
    }
    const bool is_second = row % 2 != 0;
    const float first = WarpMax(is_second ? 0 : largest);
    const float second = WarpMax(is_second ? largest : 0);
    return PowerAbove(is_second ? second : first);
  }

  __device__ void Round(int n_tiles, std::byte* stages, float* powers) const {
    const int n_stages = n_tiles / 2;
    float inverse = 1;
    for (int first = stage; first < n_stages + stage; first += 2 * kAtOnce) {
      uint4 eight[kAtOnce] = {};
      float scale[kAtOnce] = {};
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = first + 2 * i;
        if (!is_row || at >= n_stages) continue;
        eight[i] = *reinterpret_cast<const uint4*>(values + at * 128);
        scale[i] = FloatAt(scales, (at * 2 + piece / 4) * 4);
      }
      if (first == stage) {
        const float power = Power(n_tiles);
        inverse = InverseOfPower(power);
        if (LaneIndex() % 8 == 0) powers[row] = power;
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = first + 2 * i;
        if (!is_row || at >= n_stages) continue;
        Store(eight[i], scale[i] * inverse, stages + at * FewStageBytes(kRows));
      }
    }
  }

  // Stores four even columns and four odd ones of 16.
  __device__ void Store(const uint4& eight, float scale, std::byte* to) const {
    const uint2 first = {eight.x, eight.y};
    const uint2 second = {eight.z, eight.w};
    const uint2 even = {RoundedRow::Even(first, scale),
                        RoundedRow::Even(second, scale)};
    const uint2 odd = {RoundedRow::Odd(first, scale),
                       RoundedRow::Odd(second, scale)};
    const int chunk = piece / 2 * 2;
    const int in_chunk = piece % 2 * 8;
    *reinterpret_cast<uint2*>(to + SwizzledByte(row, chunk) + in_chunk) = even;
    *reinterpret_cast<uint2*>(to + SwizzledByte(row, chunk + 1) + in_chunk) =
        odd;
  }
};

template <int kRows>
__device__ void RoundRows(const Activations& x, const Share& share,
                          std::byte* stages, float* powers) {
  for (int pair = WarpIndex(); pair < kRows / 2; pair += kFewWarps) {
    if (pair * 2 >= x.n_rows) break;
    RowRounder<kRows>(x, share, pair).Round(share.n_tiles, stages, powers);
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
    run.Copy(ring, slot, std::min(left, int{Ring::kTiles}));
    if (++slot == ring.n_slots) slot = 0;
    left -= Ring::kTiles;
    if (left > 0) return;
    quad += kFewGroups;
    BeginQuad(products, share);
  }
};

// ---- Sums ------------------------------------------------------------------

// What the parts leave for each other: for each tile of outputs and part, four
// sums of each lane for each group of rows.
struct FewParts {
  float4* sums;     // [tiles, parts, groups, lanes]
  int32_t* counts;  // [quads], zeros; a byte for each tile
};

// Adds up the sums of all parts in the warp that comes last to its tile, which
// gets them all. Returns false in the others.
template <int kRows>
__device__ bool AddParts(const FewParts& parts, const FewSplit& split, int quad,
                         int part, int n_rows,
                         float (&mine)[WgmmaSums(kRows)]) {
  constexpr int kGroups = kRows / kGroupRows;
  constexpr int kAtOnce = kRows == kFewRows ? 4 : 2;
  const int in_quad = WarpIndex() % kQuadTiles;
  const int lane = LaneIndex();
  float4* all = parts.sums +
                (int64_t{quad} * kQuadTiles + in_quad) * split.n_parts *
                    (kGroups * kWarpThreads) +
                lane;
  const auto at = [&](int p, int g) {
    return all + (p * kGroups + g) * kWarpThreads;
  };
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    if (g * kGroupRows >= n_rows) break;
    *at(part, g) = {mine[4 * g], mine[4 * g + 1], mine[4 * g + 2],
                    mine[4 * g + 3]};
  }
  FenceDevice();
  __syncwarp();
  const int shift = 8 * in_quad;
  int32_t count = 0;
  if (lane == 0) count = FetchAndAdd(parts.counts + quad, 1 << shift);
  count = __shfl_sync(kFullWarp, count, 0);
  if ((count >> shift & 255) != split.n_parts - 1) return false;
  if (lane == 0) FetchAndAdd(parts.counts + quad, -(split.n_parts << shift));
  FenceDevice();
#pragma unroll
  for (int i = 0; i < WgmmaSums(kRows); ++i) mine[i] = 0;
  for (int first = 0; first < split.n_parts; first += kAtOnce) {
    float4 four[kAtOnce][kGroups] = {};
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        if (first + p >= split.n_parts || g * kGroupRows >= n_rows) continue;
        four[p][g] = LoadWritten(at(first + p, g));
      }
    }
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        mine[4 * g] += four[p][g].x;
        mine[4 * g + 1] += four[p][g].y;
        mine[4 * g + 2] += four[p][g].z;
        mine[4 * g + 3] += four[p][g].w;
      }
    }
  }
  return true;
}

// ---- Products --------------------------------------------------------------

// Multiplies the tiles of a slot, two columns of them at a time.
template <DType kType, int kRows>
struct SlotProducts {
  using Ring = WarpRing<kType>;
  static constexpr int kSums = WgmmaSums(kRows);
  // Of every descriptor of rows in shared memory.
  static constexpr uint64_t kHighHalf = WgmmaDescriptor(0, 0) >> 32;
  TileReader<kType, 1, true> weights;
  uint32_t rows;  // the low half of the descriptor of the slot's first columns

  // Multiplies columns `first` and `first + 1` of tiles.
  __device__ void Multiply(int first, const BlockScales<kType>& scales,
                           float (&sums)[kSums], HalfTile (&tiles)[2]) const {
    constexpr int kShare = PlanesOf(kType).block_tiles;
    RawTile<kType> raw[2];
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      raw[c] = weights.LoadTile(0, static_cast<uint32_t>(first + c));
    }
    const uint32_t stage =
        rows + static_cast<uint32_t>(first / 2 * (FewStageBytes(kRows) >> 4));
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      tiles[c] = RoundTile<kType>(raw[c], scales, (first + c) % kShare);
      BeginProducts();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        constexpr int kStepChunks = kWgmmaColumns * 2 / kSwizzleChunkBytes;
        const uint32_t step =
            stage + static_cast<uint32_t>((c * 2 + half) * kStepChunks);
        MultiplyGroup<kRows>(tiles[c].a[half], kHighHalf << 32 | step, sums);
      }
      CommitProducts();
      // Now the tile of the other column may change.
      AwaitProducts<1>();
    }
  }
};

template <DType kType, int kRows>
__global__ void __launch_bounds__(kBoundThreads, 1)
    MultiplyQuads(const __grid_constant__ Products products, Activations x,
                  FewSplit split, int32_t most_stages, FewParts parts,
                  bool accumulate) {
  using Ring = WarpRing<kType>;
  constexpr int kGroups = kRows / kGroupRows;
  constexpr int kTiles = Ring::kTiles;
  LetNextKernelBegin();
  const Share share(split, static_cast<int>(UnitTiles(kType)));
  const Places<kType, kRows> places(DynamicShared(), most_stages);
  const Ring ring = places.Ring(split.n_slots);
  const int first_quad = share.first_quad + WarpIndex() / kQuadTiles;
  WarpCopies<kType> copies;
  copies.Begin(products, share, first_quad);
  if (LaneIndex() == 0) {
    ring.Init();
    for (int i = 0; i < split.n_slots; ++i) copies.Next(products, share, ring);
  }
  WaitForKernelsBefore();
  RoundRows<kRows>(x, share, places.stages, places.powers);
  PublishShared();
  __syncthreads();
  SlotCursor at;
  const auto rows =
      static_cast<uint32_t>(WgmmaDescriptor(SharedAddress(places.stages), 0));
  for (int quad = first_quad; quad < share.end_quad; quad += kFewGroups) {
    float sums[WgmmaSums(kRows)] = {};
    HalfTile tiles[2] = {};
    for (int first = 0; first < share.n_tiles; first += kTiles) {
      WaitFor(ring.full + at.slot, at.phase);
      // The exchange tells the compiler that all lanes have the same number.
      const auto before =
          static_cast<uint32_t>(first / 2 * (FewStageBytes(kRows) >> 4));
      const SlotProducts<kType, kRows> slot = {
          ring.Reader(at.slot), __shfl_sync(kFullWarp, rows + before, 0)};
      const BlockScales<kType> scales(slot.weights.LoadTile(0, 0));
      // Slots of types with long blocks are always full.
      if (kTiles == UnitTiles(kType) || first + kTiles <= share.n_tiles) {
#pragma unroll
        for (int i = 0; i < kTiles; i += 2)
          slot.Multiply(i, scales, sums, tiles);
      } else {
#pragma unroll 1
        for (int i = 0; first + i < share.n_tiles; i += 2) {
          slot.Multiply(i, scales, sums, tiles);
        }
      }
      __syncwarp();
      if (LaneIndex() == 0) copies.Next(products, share, ring);
      at.Advance(split.n_slots);
    }
    AwaitProducts<0>();
    KeepSums(sums);
    const QuadTile tile(products, quad);
    if (!tile.IsInProduct()) continue;
    ScaleSums<kGroups>(places.powers, 0, sums);
    if (split.n_parts > 1 &&
        !AddParts<kRows>(parts, split, quad, share.part, x.n_rows, sums)) {
      continue;
    }
    StoreSums<kGroups>(sums, *tile.product, tile.row_tile, 0, x.n_rows,
                       accumulate);
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
  if (n_quads > kCounts) return {};
  const int64_t quad_bytes = kQuadTiles * kTileRows * rows * 4;
  return SplitFew(first.w.dtype, rows, n_quads, first.w.cols / kTileCols,
                  context.n_multiprocessors, context.few_row_parts,
                  kScratchBytes / (n_quads * quad_bytes));
}

template <DType kType, int kRows>
void LaunchQuads(const Context& context, std::span<const MatMulArgs> products,
                 const FewSplit& split) {
  const MatMulArgs& first = products.front();
  int64_t n_quads = 0;
  const Products all = ProductsOf(products, kQuadTiles, n_quads);
  const int64_t most_stages = (split.n_units + split.n_parts - 1) /
                              split.n_parts * UnitTiles(kType) / 2;
  const int64_t shared = most_stages * FewStageBytes(kRows) + kFewFixedBytes +
                         kFewWarps * split.n_slots * RingSlotBytes(kType);
  const FewParts parts = {.sums = reinterpret_cast<float4*>(context.scratch),
                          .counts = context.counts};
  Launch(MultiplyQuads<kType, kRows>, {split.n_parts, split.n_blocks}, kThreads,
         shared, context.queue, all, Activations(first), split,
         static_cast<int32_t>(most_stages), parts, first.accumulate);
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
  if (split.n_parts == 0) return false;
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
