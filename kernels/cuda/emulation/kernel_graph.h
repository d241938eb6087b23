// What a driver may refuse of graphs whose kernels overlap, for tests.
#ifndef PLIMSOLL_KERNELS_CUDA_EMULATION_KERNEL_GRAPH_H_
#define PLIMSOLL_KERNELS_CUDA_EMULATION_KERNEL_GRAPH_H_

namespace plimsoll::kernels::cuda_emulated {

struct Refusals {
  bool graphs = false;   // to make them
  bool updates = false;  // to change their calls
};

// Of the emulator's driver, as tests set them; like it, not thread-safe.
Refusals& DriverRefusals();

}  // namespace plimsoll::kernels::cuda_emulated

#endif  // PLIMSOLL_KERNELS_CUDA_EMULATION_KERNEL_GRAPH_H_
