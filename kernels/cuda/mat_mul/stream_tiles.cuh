// The kernel of integer products of up to eight rows, whose weights go through
// shared memory (weight_stream.cuh).
//
// A block of threads takes units of work, rows of tiles of outputs, one after
// another. One thread starts the copies of weights, before the kernels before
// have ended. Eight warps multiply and meet only now and then, to add up what
// they have.
//
// The order of a sum does not depend on the number of rows. Columns are cut
// into equal parts (StreamParts), parts into slots of 32 tiles, and a warp has
// four neighbouring tiles of each slot. It keeps four sums of an output apart:
// one for each of these tiles, or for each half of every other tile where
// halves have scales of their own. At the end of a part the four sums are added
// up, then those of the warps, then those of the parts.
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
  std::byte* slots;
  StreamColumns<kType, kRows> columns;
  float* kept;
  std::byte* barriers;    // of the ring
  Barrier* meeting;       // of the warps that multiply
  Barrier* columns_come;  // tells that the activations have come

  __device__ StreamPlaces(std::byte* shared, int n_slots, int n_tiles)
      : slots(shared),
        columns(shared + n_slots * SlotOf(kType).bytes, n_tiles),
        kept(reinterpret_cast<float*>(columns.End())),
        barriers(reinterpret_cast<std::byte*>(kept) + Kept<kRows>::kBytes),
        meeting(reinterpret_cast<Barrier*>(barriers + kSlotBarrierBytes)),
        columns_come(meeting + 1) {}
};

// The shared memory of a block: with as many slots as fit in what two blocks
// of a multiprocessor can have, less something for small kernels beside them.
template <DType kType, int kRows>
struct StreamRoom {
  static constexpr int64_t kFewestSlots = 2;
  static constexpr int64_t kSharedBytes = int64_t{kRows == 1 ? 104 : 112} << 10;

  int64_t n_slots;
  int64_t bytes;

  explicit StreamRoom(const StreamParts& parts) {
    const int64_t fixed =
        StreamColumns<kType, kRows>::Bytes(parts.TilesOfBlock(kRows)) +
        Kept<kRows>::kBytes + kSlotBarrierBytes + 2 * int64_t{sizeof(Barrier)};
    n_slots = std::clamp<int64_t>((kSharedBytes - fixed) / SlotOf(kType).bytes,
                                  0, kMostSlots);
    bytes = n_slots * SlotOf(kType).bytes + fixed;
  }
  bool Fits() const { return n_slots >= kFewestSlots; }
};

// Goes through the runs of tiles that a block multiplies, in order: unit after
// unit, its rows of tiles, and the slots of each part.
template <int kUnitTiles>
struct RunCursor {
  int unit;
  int step;
  int begin;  // columns of tiles, of the block
  int end;
  int part_tiles;
  int tile = 0;  // of the unit
  int col = 0;
  int part_end = 0;

  __device__ RunCursor(int unit, int step, int begin, int end, int part_tiles)
      : unit(unit), step(step), begin(begin), end(end), part_tiles(part_tiles) {
    Start(begin);
  }
  __device__ void Start(int first) {
    col = first;
    part_end = std::min(first + part_tiles, end);
  }
  __device__ int Tiles() const {
    const int left = part_end - col;
    return left < kSlotTiles ? left : kSlotTiles;
  }
  // Returns true at the end of a part.
  __device__ bool Advance() {
    col += kSlotTiles;
    if (col < part_end) return false;
    if (part_end < end) {
      Start(part_end);
      return true;
    }
    Start(begin);
    if (++tile == kUnitTiles) {
      tile = 0;
      unit += step;
    }
    return true;
  }
};

template <DType kType, int kRows, class Outputs>
__global__ void __launch_bounds__(kStreamThreads, kStreamBlocks)
    StreamTiles(const __grid_constant__ Products products, Activations x,
                StreamWork work, Outputs outputs) {
  LetNextKernelBegin();
  constexpr bool kHasAllParts = Outputs::kHasAllParts;
  using Entries = typename Outputs::Entries;
  using Sums = StreamSums<kType, kRows>;
  const auto col_tiles = static_cast<int>(products.of[0].w.at.col_tiles);
  const int n_parts = work.parts.n_parts;
  const auto block = static_cast<int>(blockIdx.x);
  const int part = kHasAllParts ? 0 : block % n_parts;
  const int group = kHasAllParts ? block : block / n_parts;
  const int begin = part * work.parts.tiles;
  const int end =
      kHasAllParts ? col_tiles : std::min(begin + work.parts.tiles, col_tiles);
  const StreamPlaces<kType, kRows> places(DynamicShared(), work.n_slots,
                                          end - begin);
  const WeightRing<kType> ring(places.slots, places.barriers, work.n_slots);
  const int warp = WarpIndex();
  SlotCursor at;
  RunCursor<Outputs::kUnitTiles> run(group, work.n_groups, begin, end,
                                     work.parts.tiles);
  if (ThreadIndex() == kProductThreads) {
    ring.Init();
    InitBarrier(places.meeting, kProductThreads);
    InitBarrier(places.columns_come, Sums::Columns::kArrivals);
    PublishBarriers();
  }
  __syncthreads();
  if (ThreadIndex() == kProductThreads) {
    for (int n = 0; run.unit < work.n_units; ++n) {
      if (n >= work.n_slots) WaitFor(ring.empty + at.slot, at.phase ^ 1);
      int row_tile = Outputs::RowTile(products, run.unit, run.tile);
      const Product& product = FindProduct(products, row_tile);
      ring.Copy(at.slot, product.w, row_tile, run.col, run.Tiles());
      at.Advance(work.n_slots);
      run.Advance();
    }
  }
  WaitForKernelsBefore();
  if (warp < kProductWarps) {
    places.columns.Fetch(x, begin, places.columns_come);
    WaitFor(places.columns_come, 0);
    const int unit_entries = Outputs::kUnitTiles * (kHasAllParts ? n_parts : 1);
    int n_kept = 0;  // units
    int n_entries = 0;
    int first_unit = 0;  // of those that are kept
    int parity = 0;      // of the meeting, and which buffer is written
    Sums sums;
    // A slot that has been read, and where its run ends.
    struct Step {
      typename Sums::Read read;
      int unit;
      bool ends_part;
      bool ends_unit;
    };
    Step next = {};
    bool has_next = false;
    while (has_next || run.unit < work.n_units) {
      Step step = next;
      const bool has_step = has_next;
      has_next = run.unit < work.n_units;
      if (has_next) {
        WaitFor(ring.full + at.slot, at.phase);
        next.read = Sums::Load(ring.Reader(at.slot, warp * kWarpTiles),
                               places.columns, run.col - begin, run.Tiles());
        next.unit = run.unit;
        next.ends_part = run.Advance();
        next.ends_unit = run.unit != next.unit;
      }
      if constexpr (!Sums::kReadsAhead) {
        step = next;
        sums.Add(step.read);
      }
      if (has_next) {
        __syncwarp();
        if (LaneIndex() == 0) Arrive(ring.empty + at.slot);
        at.Advance(work.n_slots);
      }
      if constexpr (Sums::kReadsAhead) {
        if (!has_step) continue;
        sums.Add(step.read);
      } else {
        has_next = false;
      }
      if (!step.ends_part) continue;
      float* const kept =
          places.kept + parity * Entries::kEntries * Entries::kOfEntry;
      sums.Take(kept + n_entries * Entries::kOfEntry + warp * Entries::kOfWarp);
      if (n_entries++ == 0) first_unit = step.unit;
      if (!step.ends_unit) continue;
      ++n_kept;
      const bool is_full = n_entries + unit_entries > Entries::kEntries;
      if (!is_full && (has_next || run.unit < work.n_units)) continue;
      Arrive(places.meeting);
      WaitFor(places.meeting, parity);
      outputs.Take(products, work, kept, part, first_unit, n_kept, x.n_rows);
      parity ^= 1;
      n_kept = 0;
      n_entries = 0;
    }
  }
  if (kHasAllParts || n_parts == 1) return;
  __syncthreads();
  outputs.End(products, work, group, x.n_rows,
              reinterpret_cast<int32_t*>(places.kept));
}

// Launches the kernel with up to `n_blocks` blocks.
template <DType kType, int kRows, class Outputs>
void LaunchStream(const Context& context, const Products& products,
                  const MatMulArgs& first, int64_t n_units, int64_t n_blocks,
                  const Outputs& outputs) {
  const StreamParts parts(first.w.cols / kTileCols);
  const StreamRoom<kType, kRows> room(parts);
  const int64_t of_group = Outputs::kHasAllParts ? 1 : parts.n_parts;
  const int64_t n_groups =
      std::clamp<int64_t>(n_blocks / of_group, 1, std::min(n_units, kCounts));
  const StreamWork work = {
      .parts = parts,
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
