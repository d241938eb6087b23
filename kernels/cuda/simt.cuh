// One text for two machines. nvcc compiles it for a device; for the tests the
// same text is plain C++ over emulation/simt.h, in a namespace of its own.
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
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  return reinterpret_cast<std::byte*>(dynamic_shared);
}
#endif

// The default of 48 KiB a block needs no permission.
inline constexpr int64_t kMaxSharedBytes = int64_t{48} << 10;

// Queues `kernel` on `stream`. Errors: at the next LaunchStatus() or
// synchronisation. An empty grid launches nothing.
template <class... Parameters, class... Arguments>
void Launch(void (*kernel)(Parameters...), Grid grid, int n_threads,
            int64_t shared_bytes, Stream stream, Arguments... arguments) {
  if (grid.x <= 0 || grid.y <= 0 || grid.z <= 0) return;
#ifdef PLIMSOLL_CUDA_EMULATED
  (void)stream;
  RunGrid({static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
           static_cast<unsigned>(grid.z)},
          n_threads, shared_bytes, [&] { kernel(arguments...); });
#else
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
           static_cast<unsigned>(grid.z));
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
    Launch(kernel, call.grid, call.n_threads, call.shared_bytes, Stream{},
           *reinterpret_cast<const Parameters*>(call.Argument(kAt))...);
  };
  run(std::make_integer_sequence<int, sizeof...(Parameters)>{});
}
#endif

// The same in an operation's queue, which may hold it for a step's graph.
template <class... Parameters, class... Arguments>
void Launch(void (*kernel)(Parameters...), Grid grid, int n_threads,
            int64_t shared_bytes, LaunchQueue* queue, Arguments... arguments) {
  if (grid.x <= 0 || grid.y <= 0 || grid.z <= 0) return;
  if (!queue->is_held()) {
    return Launch(kernel, grid, n_threads, shared_bytes, queue->stream(),
                  arguments...);
  }
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
