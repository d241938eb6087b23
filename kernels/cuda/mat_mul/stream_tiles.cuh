// The kernel of integer products of up to eight rows, whose weights go through
// shared memory (weight_stream.cuh).
//
// A block of threads takes units of work, rows of tiles of outputs, one after
// another. One thread starts the copies of weights, before the kernels before
// have ended. Eight warps multiply, and meet only now and then to add up their
// sums.
//
// The order of a sum does not depend on the number of rows. Columns are cut
// into equal slices (StreamSlices), slices into slots of 32 tiles, and a warp
// has four neighbouring tiles of each slot. It keeps four sums of an output
// apart: one for each of these tiles, or for each half of every other tile if
// halves have separate scales. At the end of a slice the four sums are added
// up, then the sums of the warps, then the sums of the slices.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_STREAM_TILES_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_STREAM_TILES_CUH_

#include <algorithm>

#include "kernels/cuda/mat_mul/stream_outputs.cuh"
#include "kernels/cuda/mat_mul/stream_rows.cuh"
#include "kernels/cuda/mat_mul/weight_stream.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

inline constexpr int kStreamThreads = kProductThreads + kWarpThreads;
// Blocks of a multiprocessor, of one kernel or of two that overlap.
inline constexpr int kStreamBlocks = 2;

// The block's shared memory.
template <DType kType, int kRows>
struct StreamPlaces {
  StreamColumns<kType, kRows> columns;
  float* kept;
  WeightRing<kType> ring;
  Barrier* meeting;  // barrier of the warps that multiply
  ColumnBarriers column_barriers;

  __device__ StreamPlaces(std::byte* shared, int n_slots, int n_tiles)
      : columns(shared + n_slots * SlotOf(kType).bytes, n_tiles),
        kept(reinterpret_cast<float*>(columns.End())),
        ring(shared, reinterpret_cast<std::byte*>(kept) + Kept<kRows>::kBytes,
             n_slots),
        meeting(ring.empty + kMostSlots),
        column_barriers{meeting + 1, meeting + 2} {}
};

// The shared memory of a block: with as many slots as fit if a multiprocessor
// holds two blocks, minus some bytes for small kernels beside them.
template <DType kType, int kRows>
struct StreamRoom {
  static constexpr int64_t kFewestSlots = 2;
  static constexpr int64_t kSharedBytes = int64_t{kRows == 1 ? 104 : 112} << 10;

  int64_t n_slots;
  int64_t bytes;

  explicit StreamRoom(const StreamSlices& slices) {
    const int64_t fixed =
        StreamColumns<kType, kRows>::Bytes(slices.TilesOfBlock(kRows)) +
        Kept<kRows>::kBytes + kSlotBarrierBytes + 3 * int64_t{sizeof(Barrier)};
    n_slots = std::clamp<int64_t>((kSharedBytes - fixed) / SlotOf(kType).bytes,
                                  0, kMostSlots);
    bytes = n_slots * SlotOf(kType).bytes + fixed;
  }
  bool Fits() const { return n_slots >= kFewestSlots; }
};

// Goes through the runs of tiles that a block multiplies, in order: unit after
// unit, its rows of tiles, and the slots of each slice.
template <int kUnitTiles>
struct RunCursor {
  int unit;
  int step;
  int begin;  // columns of tiles, of the block
  int end;
  int slice_tiles;
  int tile = 0;  // row of tiles within the unit
  int col = 0;
  int slice_end = 0;

  __device__ RunCursor(int unit, int step, int begin, int end, int slice_tiles)
      : unit(unit),
        step(step),
        begin(begin),
        end(end),
        slice_tiles(slice_tiles) {
    Start(begin);
  }
  __device__ void Start(int first) {
    col = first;
    slice_end = std::min(first + slice_tiles, end);
  }
  __device__ int Tiles() const {
    const int left = slice_end - col;
    return left < kSlotTiles ? left : kSlotTiles;
  }
  __device__ void Advance() {
    col += kSlotTiles;
    if (col < slice_end) return;
    if (slice_end < end) return Start(slice_end);
    Start(begin);
    if (++tile < kUnitTiles) return;
    tile = 0;
    unit += step;
  }
};

// The work of a block: columns of tiles [begin, end), which are one slice or
// all columns, of every n_groups-th unit from unit `group` on.
template <class Outputs>
struct StreamBlock {
  int slice;
  int group;
  int begin;
  int end;
  int n_rows;  // rows of activations

  __device__ __forceinline__ StreamBlock(const StreamWork& work, int col_tiles,
                                         int n_rows)
      : n_rows(n_rows) {
    constexpr bool kHasAll = Outputs::kHasAll;
    const int n_slices = work.slices.n_slices;
    const auto block = static_cast<int>(blockIdx.x);
    slice = kHasAll ? 0 : block % n_slices;
    group = kHasAll ? block : block / n_slices;
    begin = slice * work.slices.tiles;
    end = kHasAll ? col_tiles : std::min(begin + work.slices.tiles, col_tiles);
  }
};

// Starts the copies of all tiles that the block multiplies. One thread does it.
template <DType kType, class Outputs>
__device__ __forceinline__ void CopyTiles(const Products& products,
                                          const StreamWork& work,
                                          const StreamBlock<Outputs>& block,
                                          const WeightRing<kType>& ring) {
  SlotCursor at;
  RunCursor<Outputs::kUnitTiles> run(block.group, work.n_groups, block.begin,
                                     block.end, work.slices.tiles);
#pragma unroll 1
  for (int n = 0; run.unit < work.n_units; ++n) {
    // The first slots are empty, the others once the activations have come.
    if (n == work.n_slots) WaitForKernelsBefore();
    if (n >= work.n_slots) WaitFor(ring.empty + at.slot, at.phase ^ 1);
    int row_tile = Outputs::RowTile(products, run.unit, run.tile);
    const Product& product = FindProduct(products, row_tile);
    ring.Copy(at.slot, product.w, row_tile, run.col, run.Tiles());
    at.Advance(work.n_slots);
    run.Advance();
  }
}

// Multiplies the tiles that come through the ring, unit after unit, and passes
// the kept sums to `outputs`. Called by the warps that multiply, once they have
// the activations.
template <DType kType, int kRows, class Outputs>
__device__ __forceinline__ void MultiplyUnits(
    const Products& products, const StreamWork& work, const Outputs& outputs,
    const StreamBlock<Outputs>& block,
    const StreamPlaces<kType, kRows>& places) {
  const WeightRing<kType>& ring = places.ring;
  constexpr bool kHasAll = Outputs::kHasAll;
  using Entries = typename Outputs::Entries;
  const TileReader<kType, 1, true> first_slot =
      ring.Reader(0, WarpIndex() * kWarpTiles);
  const int n_slices = work.slices.n_slices;
  const int unit_entries = Outputs::kUnitTiles * (kHasAll ? n_slices : 1);
  int n_entries = 0;
  int first_unit = block.group;  // the first unit with kept sums
  int parity = 0;                // the meeting's phase, and the buffer to write
  SlotCursor at;
  StreamSums<kType, kRows> sums;
#pragma unroll 1
  for (int unit = block.group; unit < work.n_units; unit += work.n_groups) {
    float* const kept =
        places.kept + parity * Entries::kEntries * Entries::kOfEntry;
#pragma unroll 1
    for (int entry = 0; entry < unit_entries; ++entry) {
      const int slice_begin =
          block.begin + (kHasAll ? entry % n_slices * work.slices.tiles : 0);
      const int slice_end =
          std::min(slice_begin + work.slices.tiles, block.end);
#pragma unroll 1
      for (int col = slice_begin; col < slice_end; col += kSlotTiles) {
        WaitFor(ring.full + at.slot, at.phase);
        sums.Add(first_slot.In(at.slot * WeightRing<kType>::kSlot.bytes),
                 places.columns, col - block.begin, slice_end - col);
        __syncwarp();
        if (LaneIndex() == 0) Arrive(ring.empty + at.slot);
        at.Advance(work.n_slots);
      }
      sums.Take(kept + n_entries++ * Entries::kOfEntry +
                WarpIndex() * Entries::kOfWarp);
    }
    const bool is_full = n_entries + unit_entries > Entries::kEntries;
    if (!is_full && unit + work.n_groups < work.n_units) continue;
    Arrive(places.meeting);
    WaitFor(places.meeting, parity);
    outputs.Take(products, work,
                 {.sums = kept,
                  .slice = block.slice,
                  .first = first_unit,
                  .n = (unit - first_unit) / work.n_groups + 1},
                 block.n_rows);
    first_unit = unit + work.n_groups;
    parity ^= 1;
    n_entries = 0;
  }
}

template <DType kType, int kRows, class Outputs>
__global__ void __launch_bounds__(kStreamThreads, kStreamBlocks)
    StreamTiles(const __grid_constant__ Products products, Activations x,
                StreamWork work, Outputs outputs) {
  LetNextKernelBegin();
  const StreamBlock<Outputs> block(
      work, static_cast<int>(products.of[0].w.at.col_tiles), x.n_rows);
  const StreamPlaces<kType, kRows> places(DynamicShared(), work.n_slots,
                                          block.end - block.begin);
  if (ThreadIndex() == kProductThreads) {
    places.ring.Init();
    places.column_barriers.Init();
    InitBarrier(places.meeting, kProductThreads);
    PublishBarriers();
  }
  __syncthreads();
  if (ThreadIndex() == kProductThreads) {
    CopyTiles<kType>(products, work, block, places.ring);
  }
  WaitForKernelsBefore();
  if (WarpIndex() < kProductWarps) {
    places.columns.Fetch(x, block.begin, places.column_barriers);
    MultiplyUnits(products, work, outputs, block, places);
  }
  if (Outputs::kHasAll || work.slices.n_slices == 1) return;
  __syncthreads();
  outputs.End(products, work, block.group, block.n_rows,
              reinterpret_cast<int32_t*>(places.kept));
}

// The size of a launch.
struct StreamSize {
  int64_t n_units;
  int64_t n_blocks;  // the most
};

// Launches the kernel.
template <DType kType, int kRows, class Outputs>
void LaunchStream(const Context& context, const Products& products,
                  const MatMulArgs& first, const StreamSize& size,
                  const Outputs& outputs) {
  const auto [n_units, n_blocks] = size;
  const StreamSlices slices(first.w.cols / kTileCols);
  const StreamRoom<kType, kRows> room(slices);
  const int64_t of_group = Outputs::kHasAll ? 1 : slices.n_slices;
  const int64_t n_groups =
      std::clamp<int64_t>(n_blocks / of_group, 1, std::min(n_units, kCounts));
  const StreamWork work = {
      .slices = slices,
      .n_units = static_cast<int32_t>(n_units),
      .n_slots = static_cast<int32_t>(room.n_slots),
      .n_groups = static_cast<int32_t>(n_groups),
      .accumulate = first.accumulate,
  };
  Launch(StreamTiles<kType, kRows, Outputs>, {n_groups * of_group},
         kStreamThreads, room.bytes, context.queue, products,
         Activations(first), work, outputs);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_STREAM_TILES_CUH_
