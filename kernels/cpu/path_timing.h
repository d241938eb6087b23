// Measures which of the paths with equal bits is the fastest on this machine.
#ifndef PLIMSOLL_KERNELS_CPU_PATH_TIMING_H_
#define PLIMSOLL_KERNELS_CPU_PATH_TIMING_H_

namespace plimsoll::kernels {

// Calls ChooseCpuTarget with the time that a product of some rows takes. The
// first call takes some milliseconds; later calls, and calls after a path was
// chosen by name, do nothing.
void TimeCpuTargets();

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CPU_PATH_TIMING_H_
