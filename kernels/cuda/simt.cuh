// Lets one kernel text compile for two machines. nvcc compiles it for a device;
// the tests compile the same text as plain C++ over emulation/simt.h, in a
// namespace of its own.
#ifndef PLIMSOLL_KERNELS_CUDA_SIMT_CUH_
#define PLIMSOLL_KERNELS_CUDA_SIMT_CUH_

#include <utility>

#include "kernels/cuda/launch_queue.h"
#include "kernels/cuda/platform.h"
#include "kernels/cuda/runtime.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

#ifdef PLIMSOLL_CUDA_EMULATED
using ::plimsoll::kernels::cuda_emulated::DynamicShared;
#else
inline constexpr int kWarpThreads = 32;

__device__ inline std::byte* DynamicShared() {
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  return reinterpret_cast<std::byte*>(dynamic_shared);
}
#endif

// Kernels of a step's graph overlap if the device supports this (compute
// capability 9.0): a kernel's blocks may begin while earlier kernels still run.
// Every kernel that a LaunchQueue gets calls WaitForKernelsBefore() in each
// thread, before the thread reads or writes any memory but weights and what
// LaunchQueue::PutSpan has given it. Nothing writes weights while a step runs,
// and the host's data is copied before the step's first kernel begins. So a
// step has the same result as without overlap:
//
// - A thread comes back from the wait when all of the kernel before has ended,
//   with what it wrote. That kernel's threads had all waited in turn, so every
//   earlier kernel had ended too: what they wrote may be read, and what they
//   read or wrote may be written.
// - The wait cannot hang. The next kernel's blocks begin when all blocks of
//   this one have called LetNextKernelBegin() or ended, so a block that waits
//   holds no place that a block before it needs.
//
// Data that an earlier kernel may have written is read by plain loads: __ldg is
// for memory that is not written while the kernel runs or waits.
#ifdef PLIMSOLL_CUDA_EMULATED
using ::plimsoll::kernels::cuda_emulated::LetNextKernelBegin;
using ::plimsoll::kernels::cuda_emulated::WaitForKernelsBefore;
#else

__device__ inline void LetNextKernelBegin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Waits for the earlier kernels, and also lets the next kernel begin.
__device__ inline void WaitForKernelsBefore() {
  LetNextKernelBegin();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#endif

// Queues `kernel` on `stream`. Its errors come with the next LaunchStatus() or
// synchronisation. An empty grid launches nothing.
template <class... Parameters, class... Arguments>
void Launch(void (*kernel)(Parameters...), Grid grid, int n_threads,
            int64_t shared_bytes, Stream stream, Arguments... arguments) {
  if (grid.x <= 0 || grid.y <= 0 || grid.z <= 0) return;
#ifdef PLIMSOLL_CUDA_EMULATED
  (void)stream;
  RunGrid(DimensionsOf(grid), n_threads, shared_bytes,
          [&] { kernel(arguments...); });
#else
  cudaLaunchConfig_t config = {};
  config.gridDim = DimensionsOf(grid);
  config.blockDim = dim3(static_cast<unsigned>(n_threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  // The runtime keeps the error for LaunchStatus().
  (void)cudaLaunchKernelEx(&config, kernel,
                           static_cast<Parameters>(arguments)...);
#endif
}

#ifdef PLIMSOLL_CUDA_EMULATED
template <class... Parameters>
void EmulateCall(const KernelCall& call) {
  auto* kernel =
      reinterpret_cast<void (*)(Parameters...)>(const_cast<void*>(call.kernel));
  const auto run = [&]<int... kAt>(std::integer_sequence<int, kAt...>) {
    const auto thread = [&] {
      kernel(*reinterpret_cast<const Parameters*>(call.Argument(kAt))...);
      CheckWaited();
    };
    RunGrid(DimensionsOf(call.grid), call.n_threads, call.shared_bytes, thread);
  };
  run(std::make_integer_sequence<int, sizeof...(Parameters)>{});
}
#endif

// Puts the launch into an operation's queue, which may hold it for a step's
// graph. Each of the kernel's threads must call WaitForKernelsBefore().
template <class... Parameters, class... Arguments>
void Launch(void (*kernel)(Parameters...), Grid grid, int n_threads,
            int64_t shared_bytes, LaunchQueue* queue, Arguments... arguments) {
  if (grid.x <= 0 || grid.y <= 0 || grid.z <= 0) return;
  static_assert(sizeof...(Parameters) <= KernelCall::kMaxArguments);
  static_assert((sizeof(Parameters) + ... + 0) + 16 * sizeof...(Parameters) <=
                KernelCall::kMaxBytes);
  KernelCall call;
  call.kernel = reinterpret_cast<const void*>(kernel);
#ifdef PLIMSOLL_CUDA_EMULATED
  call.emulate = EmulateCall<Parameters...>;
#endif
  call.grid = grid;
  call.n_threads = n_threads;
  call.shared_bytes = shared_bytes;
  (call.Add<Parameters>(arguments), ...);
  queue->Hold(call);
}

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_SIMT_CUH_
