// The part of CUDA's language that our kernels use, on a CPU. A block's threads
// run as fibers on one thread, so that the text of a kernel can be tested, and
// checked for bad addresses, without a device.
//
// Barriers and warp operations switch fibers. Every other block runs its
// threads in the opposite order, so that a missing barrier shows. The program
// dies in cases for which CUDA's behaviour is undefined: at a barrier or warp
// operation that a thread of the block or warp has left, and at a barrier that
// never completes. It also dies if any thread of a queued kernel does not wait
// for the kernels before.
//
// Not thread-safe: one thread runs the kernels of all emulated devices.
#ifndef PLIMSOLL_KERNELS_CUDA_EMULATION_SIMT_H_
#define PLIMSOLL_KERNELS_CUDA_EMULATION_SIMT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/functional/function_ref.h"

// NOLINTBEGIN: the names are CUDA's
#define __host__
#define __device__
#define __global__
#define __grid_constant__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
// NOLINTEND

namespace plimsoll::kernels::cuda_emulated {

inline constexpr int kWarpThreads = 32;

struct Dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

// NOLINTBEGIN(readability-identifier-naming): as CUDA's
struct alignas(8) float2 {
  float x;
  float y;
};
struct alignas(8) uint2 {
  uint32_t x;
  uint32_t y;
};
struct alignas(16) uint4 {
  uint32_t x;
  uint32_t y;
  uint32_t z;
  uint32_t w;
};
struct alignas(16) float4 {
  float x;
  float y;
  float z;
  float w;
};

// Indices of the running thread; the emulator sets them.
extern Dim3 threadIdx;
extern Dim3 blockIdx;
extern Dim3 blockDim;
extern Dim3 gridDim;
// NOLINTEND(readability-identifier-naming)

// A lane can give at most this many bytes to its warp at once.
inline constexpr size_t kExchangeBytes = 48;

// Dynamic shared memory of a block, as on devices of compute capability 9.0.
inline constexpr int64_t kMostDynamicBytes = int64_t{227} << 10;

// Runs `thread` once for each thread of each block. Each block gets
// `shared_bytes` of garbage behind DynamicShared().
void RunGrid(Dim3 grid, int n_threads, int64_t shared_bytes,
             absl::FunctionRef<void()> thread);

void SyncThreads();

// The next functions are for kernels of a graph (simt.cuh). In the grid of
// RunAfter, the threads of the first block wait until `earlier` has run. In all
// other cases WaitForKernelsBefore returns at once.
void LetNextKernelBegin();
void WaitForKernelsBefore();
// Dies if the running thread has not waited for the kernels before.
void CheckWaited();

// Runs `grid`, which makes one call of RunGrid, and runs `earlier` when the
// first block of the grid waits. So an access that a kernel makes too early,
// before it waits for the earlier kernel, gives a wrong result that a test can
// see.
void RunAfter(absl::FunctionRef<void()> earlier,
              absl::FunctionRef<void()> grid);

// The bytes that the lane gives to its warp in the next Exchange().
std::byte* ExchangeSlot();
// Returns the bytes of all lanes, kExchangeBytes apart. They stay valid until
// the lane's next but one exchange. The last lane to arrive calls `change`,
// which may change the bytes for all lanes.
const std::byte* Exchange(absl::FunctionRef<void(std::byte*)> change =
                              [](std::byte*) {});

// Gives `mine` to the warp and returns the result of Exchange().
template <class T>
const std::byte* ExchangeBytes(const T* mine, size_t bytes) {
  static_assert(sizeof(T) <= kExchangeBytes);
  std::memcpy(ExchangeSlot(), mine, bytes);
  return Exchange();
}

// Copies of the running thread (async_copy.cuh). Their bytes arrive when the
// thread waits for their group; until then their place holds garbage. The
// program dies if a thread ends before it has waited.
void CopyLater(std::byte* to, const std::byte* from, size_t bytes);
void CommitCopies();
void FinishCopies(int n_left);

// A barrier in shared memory (barrier.cuh).
struct alignas(8) EmulatedBarrier {
  int16_t n_threads;
  int16_t n_left;
  int16_t phase;       // 0 or 1: the parity of the phase that runs
  int16_t bytes_left;  // in units of 16
};
void ArriveAt(EmulatedBarrier* barrier, int bytes);
void AwaitBarrier(EmulatedBarrier* barrier, int parity);
// A copy whose bytes arrive when a thread waits for the barrier; until then
// their place holds garbage.
void CopyToBarrier(std::byte* to, const std::byte* from, size_t bytes,
                   EmulatedBarrier* barrier);

// The running block's dynamic shared memory.
std::byte* DynamicShared();

// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier)
// The names are CUDA's.
inline void __syncthreads() { SyncThreads(); }
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

template <class T>
T LaneValue(const std::byte* all, int lane) {
  T value;
  std::memcpy(&value, all + static_cast<size_t>(lane) * kExchangeBytes,
              sizeof(T));
  return value;
}

inline int CurrentLane() {
  return static_cast<int>(threadIdx.x) % kWarpThreads;
}

// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier)
// The names are CUDA's.
template <class T>
T __shfl_xor_sync(unsigned /*mask*/, T value, int lane_mask) {
  const int lane = CurrentLane() ^ lane_mask;
  return LaneValue<T>(ExchangeBytes(&value, sizeof(T)), lane);
}

template <class T>
T __shfl_sync(unsigned /*mask*/, T value, int lane) {
  return LaneValue<T>(ExchangeBytes(&value, sizeof(T)), lane);
}

inline void __syncwarp() { (void)Exchange(); }
inline void __threadfence() {}

template <class T>
T __ldg(const T* at) {
  return *at;
}
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

// The result of a butterfly of __shfl_xor_sync, for every lane, with one
// exchange instead of five. combine(a, b) has the bits of combine(b, a).
template <class T, class Combine>
T ReduceLanes(T value, Combine combine) {
  std::memcpy(ExchangeSlot(), &value, sizeof(T));
  const std::byte* all = Exchange([&](std::byte* values) {
    for (int n = kWarpThreads / 2; n > 0; n /= 2) {
      for (int i = 0; i < n; ++i) {
        const T both =
            combine(LaneValue<T>(values, i), LaneValue<T>(values, i + n));
        std::memcpy(values + static_cast<size_t>(i) * kExchangeBytes, &both,
                    sizeof(T));
      }
    }
  });
  return LaneValue<T>(all, 0);
}

}  // namespace plimsoll::kernels::cuda_emulated

#endif  // PLIMSOLL_KERNELS_CUDA_EMULATION_SIMT_H_
