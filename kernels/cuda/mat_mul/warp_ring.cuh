// A warp's tiles of weights on their way through shared memory, for products of
// few rows. A warp has a ring of slots of its own, and its first lane starts
// copies of runs of tiles to them (compute capability 9.0). So no warp waits
// for another one's weights: a slot is free when the warp itself has read it.
//
// A slot holds up to RingTiles tiles of one row of tiles, plane after plane, as
// a small matrix of its own. Barrier `full` of a slot tells that its bytes have
// come.
#ifndef PLIMSOLL_KERNELS_CUDA_MAT_MUL_WARP_RING_CUH_
#define PLIMSOLL_KERNELS_CUDA_MAT_MUL_WARP_RING_CUH_

#include "kernels/cuda/barrier.cuh"
#include "kernels/cuda/mat_mul/few_split.h"
#include "kernels/cuda/mat_mul/weight_stream.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

template <DType kType>
struct WarpRing {
  static constexpr int kTiles = static_cast<int>(RingTiles(kType));
  static constexpr TilePlanes kPlanes = PlanesOf(kType);
  static constexpr TiledMatrix kSlot =
      LayOut(kType, kTileRows, kTiles* kTileCols);

  uint8_t* slots;
  Barrier* full;
  int n_slots;

  // One lane of the warp calls it, before any other uses the ring.
  __device__ void Init() const {
#pragma unroll 1
    for (int i = 0; i < n_slots; ++i) InitBarrier(full + i, 1);
    PublishBarriers();
  }

  // Where a lane reads the tiles of a slot.
  __device__ TileReader<kType, 1, true> Reader(int slot) const {
    TileReader<kType, 1, true> reader;
    const DeviceMatrix matrix = {slots + slot * kSlot.bytes, kSlot, kTileRows,
                                 kTiles * kTileCols, nullptr};
    reader.Begin(matrix, 0, 0);
    return reader;
  }
};

// Where a run of tiles lies in the planes of a matrix.
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

  // Starts the copy of the next `n_tiles` tiles, whole blocks, to a slot.
  __device__ void Copy(const WarpRing<kType>& ring, int slot, int n_tiles) {
    using Ring = WarpRing<kType>;
    const auto bytes_of = [&](int64_t plane, int64_t unit_tiles) {
      return n_tiles / static_cast<int>(unit_tiles) * static_cast<int>(plane);
    };
    const int sizes[4] = {
        bytes_of(kPlanes.quants, 1), bytes_of(kPlanes.highs, 1),
        bytes_of(kPlanes.subscales, kShare), bytes_of(kPlanes.scales, kShare)};
    ArriveForBytes(ring.full + slot, sizes[0] + sizes[1] + sizes[2] + sizes[3]);
    std::byte* to =
        reinterpret_cast<std::byte*>(ring.slots + slot * Ring::kSlot.bytes);
    const auto copy = [&](int64_t at, const uint8_t*& from, int bytes) {
      CopyBlock(to + at, reinterpret_cast<const std::byte*>(from), bytes,
                ring.full + slot);
      from += bytes;
    };
    copy(0, quants, sizes[0]);
    if constexpr (kPlanes.highs != 0) copy(Ring::kSlot.highs, highs, sizes[1]);
    if constexpr (kPlanes.subscales != 0) {
      copy(Ring::kSlot.subscales, subscales, sizes[2]);
    }
    if constexpr (kPlanes.scales != 0) {
      copy(Ring::kSlot.scales, scales, sizes[3]);
    }
  }
};

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_WARP_RING_CUH_
