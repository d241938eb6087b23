// Tiles of quantised weights on their way through shared memory. One thread of
// a block starts copies of whole runs of tiles (compute capability 9.0), as far
// ahead as there is room. So a multiprocessor has many times more bytes on the
// way than its threads could load, whatever they do meanwhile.
//
// The runs go through a ring of slots. A slot holds up to kSlotTiles tiles of
// one row of tiles, plane after plane, as a small matrix of its own. Barrier
// `full` of a slot tells that its bytes have come, barrier `empty` that all
// warps have used them.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_WEIGHT_STREAM_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_WEIGHT_STREAM_CUH_

#include "kernels/cuda/barrier.cuh"
#include "kernels/cuda/mat_mul/products.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Whole blocks of columns of every type.
inline constexpr int kSlotTiles = 4 * kStepTiles;

// Where the planes of a slot lie.
constexpr TiledMatrix SlotOf(DType type) {
  return LayOut(type, kTileRows, kSlotTiles * kTileCols);
}

// The barriers of the most slots that a ring may have.
inline constexpr int kMostSlots = 16;
inline constexpr int64_t kSlotBarrierBytes =
    2 * kMostSlots * int64_t{sizeof(Barrier)};

template <DType kType>
struct WeightRing {
  static constexpr TiledMatrix kSlot = SlotOf(kType);
  static constexpr TilePlanes kPlanes = PlanesOf(kType);

  uint8_t* slots;
  Barrier* full;
  Barrier* empty;
  int n_slots;

  // `barriers` has kSlotBarrierBytes.
  __device__ WeightRing(std::byte* slots, std::byte* barriers, int n_slots)
      : slots(reinterpret_cast<uint8_t*>(slots)),
        full(reinterpret_cast<Barrier*>(barriers)),
        empty(full + kMostSlots),
        n_slots(n_slots) {}

  // Called by one thread, before any other uses the ring.
  __device__ void Init() const {
#pragma unroll 1
    for (int i = 0; i < n_slots; ++i) {
      InitBarrier(full + i, 1);
      InitBarrier(empty + i, kProductWarps);
    }
  }

  // Starts the copy of `n_tiles` tiles of a row of tiles, from column of tiles
  // `first` on, to a slot that is empty.
  __device__ void Copy(int slot, const DeviceMatrix& w, int row_tile, int first,
                       int n_tiles) const {
    const int64_t tile = w.at.Tile(row_tile, first);
    constexpr int64_t kShare = kPlanes.block_tiles;
    const int64_t n_blocks = n_tiles / kShare;
    ArriveForBytes(
        full + slot,
        static_cast<int>(n_tiles * (kPlanes.quants + kPlanes.highs) +
                         n_blocks * (kPlanes.subscales + kPlanes.scales)));
    const auto copy = [&](int64_t to, int64_t from, int64_t bytes) {
      if (bytes == 0) return;
      CopyBlock(reinterpret_cast<std::byte*>(slots + slot * kSlot.bytes + to),
                reinterpret_cast<const std::byte*>(w.data + from),
                static_cast<int>(bytes), full + slot);
    };
    copy(0, tile * kPlanes.quants, n_tiles * kPlanes.quants);
    copy(kSlot.highs, w.at.highs + tile * kPlanes.highs,
         n_tiles * kPlanes.highs);
    copy(kSlot.subscales, w.at.subscales + tile / kShare * kPlanes.subscales,
         n_blocks * kPlanes.subscales);
    copy(kSlot.scales, w.at.scales + tile / kShare * kPlanes.scales,
         n_blocks * kPlanes.scales);
  }

  // Where a lane reads a warp's tiles of a slot.
  __device__ TileReader<kType, 1, true> Reader(int slot, int warp) const {
    TileReader<kType, 1, true> reader;
    const DeviceMatrix matrix = {slots + slot * kSlot.bytes, kSlot, kTileRows,
                                 kSlotTiles * kTileCols, nullptr};
    reader.Begin(matrix, 0, warp);
    return reader;
  }
};

// Goes through the slots of a ring, in the order in which they are used.
struct SlotCursor {
  int slot = 0;
  int phase = 0;  // the parity of the slot's round

  __device__ void Advance(int n_slots) {
    if (++slot < n_slots) return;
    slot = 0;
    phase ^= 1;
  }
};

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_WEIGHT_STREAM_CUH_
