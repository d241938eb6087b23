// Barriers in shared memory, and copies of many bytes that complete on them
// (compute capability 9.0).
//
// A barrier goes through phases. A phase ends when the barrier's number of
// threads has arrived and all announced bytes have come. WaitFor() returns once
// the phase of the given parity has ended; the first phase has parity 0.
#ifndef PLIMSOLL_KERNELS_CUDA_BARRIER_CUH_
#define PLIMSOLL_KERNELS_CUDA_BARRIER_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/numeric.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

#ifdef PLIMSOLL_CUDA_EMULATED

using Barrier = ::plimsoll::kernels::cuda_emulated::EmulatedBarrier;
inline void InitBarrier(Barrier* barrier, int n_threads) {
  *barrier = {static_cast<int16_t>(n_threads), static_cast<int16_t>(n_threads),
              0, 0};
}
inline bool IsElected() { return LaneIndex() == 0; }
inline void PublishBarriers() {}
inline void PublishShared() {}
inline void Arrive(Barrier* barrier) { ArriveAt(barrier, 0); }
inline void ArriveForBytes(Barrier* barrier, int bytes) {
  ArriveAt(barrier, bytes);
}
inline void WaitFor(Barrier* barrier, int parity) {
  AwaitBarrier(barrier, parity);
}
inline void CopyBlock(std::byte* shared, const std::byte* from, int bytes,
                      Barrier* barrier) {
  CopyToBarrier(shared, from, static_cast<size_t>(bytes), barrier);
}
inline uint32_t SharedAddress(const std::byte* shared) {
  return static_cast<uint32_t>(shared - DynamicShared());
}

#else

struct Barrier {
  uint64_t state;
};

__device__ inline uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// True in one lane of a whole warp, always the same one. The compiler then
// knows that code for this lane uses one address.
__device__ inline bool IsElected() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t is_elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xFFFFFFFF;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(is_elected));
  return is_elected != 0;
#else
  return LaneIndex() == 0;
#endif
}

// Must be called by one thread only; the other threads may use the barrier
// after a barrier of the block.
__device__ inline void InitBarrier(Barrier* barrier, int n_threads) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(n_threads)
      : "memory");
#endif
}
// Lets copies see the barriers that this thread has made. A fence of another
// kind would wait for all of the device's memory.
__device__ inline void PublishBarriers() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
// Makes this thread's stores to shared memory visible to products of a
// warpgroup, by instructions or by copies that it has waited for. A barrier
// must follow.
__device__ inline void PublishShared() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
__device__ inline void Arrive(Barrier* barrier) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier))
      : "memory");
#endif
}
// Arrives, and announces bytes that copies will bring.
__device__ inline void ArriveForBytes(Barrier* barrier, int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   SharedAddress(barrier)),
               "r"(bytes)
               : "memory");
#endif
}
__device__ inline void WaitFor(Barrier* barrier, int parity) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t is_over = 0;
  while (is_over == 0) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}\n"
        : "=r"(is_over)
        : "r"(SharedAddress(barrier)), "r"(parity)
        : "memory");
  }
#endif
}
// Starts a copy of `bytes`, a multiple of 16, like both addresses.
__device__ inline void CopyBlock(std::byte* shared, const std::byte* from,
                                 int bytes, Barrier* barrier) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1], %2, [%3];" ::"r"(SharedAddress(shared)),
      "l"(__cvta_generic_to_global(from)), "r"(bytes),
      "r"(SharedAddress(barrier))
      : "memory");
#endif
}

#endif

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_BARRIER_CUH_
