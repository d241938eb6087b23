// Tiles of quantised weights on their way through shared memory. One thread of
// a block starts copies of whole runs of tiles (compute capability 9.0), as far
// ahead as there is room. So a multiprocessor has many times more bytes on the
// way than its threads could load, even while the threads are busy.
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

// The layout of the planes of a slot.
constexpr TiledMatrix SlotOf(DType type) {
  return LayOut(type, kTileRows, kSlotTiles * kTileCols);
}

// The barriers of the most slots that a ring may have.
inline constexpr int kMostSlots = 16;
inline constexpr int64_t kSlotBarrierBytes =
    2 * kMostSlots * int64_t{sizeof(Barrier)};

// The place of a run of tiles in the planes of a matrix.
template <DType kType>
struct TileRun {
  static constexpr TilePlanes kPlanes = PlanesOf(kType);
  static constexpr int64_t kShare = kPlanes.block_tiles;
  const uint8_t* quants;
  const uint8_t* highs;
  const uint8_t* subscales;
  const uint8_t* scales;

  // The run begins with the first tile of a block.
  __device__ void Begin(const DeviceMatrix& w, int row_tile, int first) {
    const int64_t tile = w.at.Tile(row_tile, first);
    const int64_t block = tile / kShare;
    quants = w.data + tile * kPlanes.quants;
    highs = w.data + w.at.highs + tile * kPlanes.highs;
    subscales = w.data + w.at.subscales + block * kPlanes.subscales;
    scales = w.data + w.at.scales + block * kPlanes.scales;
  }

  // Starts the copy of the next `n_tiles` tiles, whole blocks, to a slot with
  // the layout `at`. Barrier `full` tells that the tiles have come.
  __device__ void Copy(uint8_t* slot, TiledMatrix at, Barrier* full,
                       int n_tiles) {
    const auto bytes_of = [&](int64_t plane, int64_t unit_tiles) {
      return n_tiles / static_cast<int>(unit_tiles) * static_cast<int>(plane);
    };
    const int sizes[4] = {
        bytes_of(kPlanes.quants, 1), bytes_of(kPlanes.highs, 1),
        bytes_of(kPlanes.subscales, kShare), bytes_of(kPlanes.scales, kShare)};
    ArriveForBytes(full, sizes[0] + sizes[1] + sizes[2] + sizes[3]);
    const auto copy = [&](int64_t to, const uint8_t*& from, int bytes) {
      CopyBlock(reinterpret_cast<std::byte*>(slot + to),
                reinterpret_cast<const std::byte*>(from), bytes, full);
      from += bytes;
    };
    copy(0, quants, sizes[0]);
    if constexpr (kPlanes.highs != 0) copy(at.highs, highs, sizes[1]);
    if constexpr (kPlanes.subscales != 0) {
      copy(at.subscales, subscales, sizes[2]);
    }
    if constexpr (kPlanes.scales != 0) copy(at.scales, scales, sizes[3]);
  }
};

// A lane's reader of the tiles of a slot with the layout `at`, from column of
// tiles `first` on.
template <DType kType>
__device__ TileReader<kType, 1, true> SlotReader(const uint8_t* slot,
                                                 TiledMatrix at, int first) {
  TileReader<kType, 1, true> reader;
  const DeviceMatrix matrix = {slot, at, kTileRows, at.col_tiles * kTileCols,
                               nullptr};
  reader.Begin(matrix, 0, first);
  return reader;
}

template <DType kType>
struct WeightRing {
  static constexpr TiledMatrix kSlot = SlotOf(kType);

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
    TileRun<kType> run;
    run.Begin(w, row_tile, first);
    run.Copy(slots + slot * kSlot.bytes, kSlot, full + slot, n_tiles);
  }

  // A lane's reader of the tiles of a slot, from the `first` one on.
  __device__ TileReader<kType, 1, true> Reader(int slot, int first) const {
    return SlotReader<kType>(slots + slot * kSlot.bytes, kSlot, first);
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
