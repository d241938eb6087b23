// Vectors whose memory a device can follow, for the suite that runs on both.
#ifndef PLIMSOLL_TESTS_KERNELS_PINNED_MEMORY_H_
#define PLIMSOLL_TESTS_KERNELS_PINNED_MEMORY_H_

namespace plimsoll::kernels {

// From now on operator new hands out pinned host memory, whose addresses
// kernels can use. Dies if there is none. Not before main.
void UsePinnedMemory();

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_TESTS_KERNELS_PINNED_MEMORY_H_
