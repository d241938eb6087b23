// Kernels that run one after another, started by one call: a CUDA graph. The
// emulator's is in emulation/kernel_graph.cc.
#ifndef PLIMSOLL_KERNELS_CUDA_KERNEL_GRAPH_H_
#define PLIMSOLL_KERNELS_CUDA_KERNEL_GRAPH_H_

#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/kernel_call.h"

namespace plimsoll::kernels::PLIMSOLL_CUDA {

// Owns device memory of the driver's. Called from one thread.
class KernelGraph {
 public:
  virtual ~KernelGraph() = default;

  // With `overlaps`, a kernel's blocks may begin before the kernel before has
  // ended (simt.cuh); it becomes false where device, driver or build cannot do
  // that. `calls` are not empty. Errors: kResourceExhausted if the driver has
  // no memory for it.
  static absl::StatusOr<std::unique_ptr<KernelGraph>> Of(
      std::span<const KernelCall> calls, bool& overlaps);

  // Call `index` becomes `call`, of the same kernel, for launches that come.
  virtual absl::Status Update(size_t index, const KernelCall& call) = 0;
  virtual absl::Status Launch(Stream stream) = 0;
};

}  // namespace plimsoll::kernels::PLIMSOLL_CUDA

#endif  // PLIMSOLL_KERNELS_CUDA_KERNEL_GRAPH_H_
