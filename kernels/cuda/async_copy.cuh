// Copies from memory to a block's shared memory. The thread continues while the
// copies run.
//
// A thread starts copies. CommitCopies() makes a group of the copies since the
// last group. After WaitForCopies<n>() all groups of this thread except the
// last n have arrived. After a barrier, the groups of the block's other threads
// have arrived too.
#ifndef PLIMSOLL_KERNELS_CUDA_ASYNC_COPY_CUH_
#define PLIMSOLL_KERNELS_CUDA_ASYNC_COPY_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/simt.cuh"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Bytes of one copy, and its alignment. A copy may also have 8 or 4 bytes.
inline constexpr int kCopyBytes = 16;

#ifdef PLIMSOLL_CUDA_EMULATED

using ::plimsoll::kernels::cuda_emulated::CommitCopies;
template <int kBytes = kCopyBytes>
void StartCopy(std::byte* shared, const std::byte* from) {
  // These reads let address checkers see the copy's source and target.
  for (const std::byte* at : {from, static_cast<const std::byte*>(shared)}) {
    [[maybe_unused]] volatile std::byte last = at[0];
    last = at[kBytes - 1];
  }
  ::plimsoll::kernels::cuda_emulated::CopyLater(shared, from, kBytes);
}
inline void PrefetchLine(const std::byte* /*from*/) {}
template <int kLeft>
void WaitForCopies() {
  ::plimsoll::kernels::cuda_emulated::FinishCopies(kLeft);
}

#else

template <int kBytes = kCopyBytes>
__device__ void StartCopy(std::byte* shared, const std::byte* from) {
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const auto at = __cvta_generic_to_global(from);
  if constexpr (kBytes == kCopyBytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(at)
                 : "memory");
  } else {
    static_assert(kBytes == 8 || kBytes == 4);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(at),
                 "n"(kBytes)
                 : "memory");
  }
}
// Brings the 128 bytes around `from` to the L2 cache. The thread gets no data.
__device__ inline void PrefetchLine(const std::byte* from) {
  asm volatile(
      "prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(from)));
}
__device__ inline void CommitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kLeft>
__device__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

#endif

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_ASYNC_COPY_CUH_
