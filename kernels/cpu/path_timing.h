// Which of the paths with equal bits is the fastest here, by a measurement.
#ifndef PLIMSOLL_KERNELS_CPU_PATH_TIMING_H_
#define PLIMSOLL_KERNELS_CPU_PATH_TIMING_H_

namespace plimsoll::kernels {

// ChooseCpuTarget by how long a product of some rows takes: some milliseconds
// the first time, nothing later or where a path was chosen by name.
void TimeCpuTargets();

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CPU_PATH_TIMING_H_
