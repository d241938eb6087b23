// A CUDA graph: kernels that run one after another and are started by one call.
// The emulator's version is in emulated_graph.cc.
#ifndef PLIMSOLL_KERNELS_CUDA_KERNEL_GRAPH_H_
#define PLIMSOLL_KERNELS_CUDA_KERNEL_GRAPH_H_

#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/kernel_call.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Owns memory of the device, which the driver allocates. Called from one
// thread.
class KernelGraph {
 public:
  virtual ~KernelGraph() = default;

  // Makes a graph of `calls`, which are not empty. With `overlaps`, a kernel's
  // blocks may begin before the kernel before has ended (simt.cuh); `overlaps`
  // becomes false if the device, the driver or the build does not support this.
  // Errors: kResourceExhausted if the driver has no memory for it.
  static absl::StatusOr<std::unique_ptr<KernelGraph>> Of(
      std::span<const KernelCall> calls, bool& overlaps);

  // Replaces call `index` by `call`, of the same kernel, for later launches.
  virtual absl::Status Update(size_t index, const KernelCall& call) = 0;
  virtual absl::Status Launch(Stream stream) = 0;
};

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_KERNEL_GRAPH_H_
