// Lets tests make the emulated driver refuse graphs whose kernels overlap.
#ifndef PLIMSOLL_KERNELS_CUDA_EMULATION_KERNEL_GRAPH_H_
#define PLIMSOLL_KERNELS_CUDA_EMULATION_KERNEL_GRAPH_H_

namespace plimsoll::kernels::cuda_emulated {

struct Refusals {
  bool graphs = false;   // refuses to make them
  bool updates = false;  // refuses to change their calls
};

// The refusals of the emulated driver, which tests set. Not thread-safe.
Refusals& DriverRefusals();

}  // namespace plimsoll::kernels::cuda_emulated

#endif  // PLIMSOLL_KERNELS_CUDA_EMULATION_KERNEL_GRAPH_H_
