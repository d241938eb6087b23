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

  // Starts the copy of the next `n_tiles` tiles of a run to a slot.
  __device__ void Copy(TileRun<kType>& run, int slot, int n_tiles) const {
    run.Copy(slots + slot * kSlot.bytes, kSlot, full + slot, n_tiles);
  }

  // A lane's reader of the tiles of a slot.
  __device__ TileReader<kType, 1, true> Reader(int slot) const {
    return SlotReader<kType>(slots + slot * kSlot.bytes, kSlot, 0);
  }
};

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_MAT_MUL_WARP_RING_CUH_
