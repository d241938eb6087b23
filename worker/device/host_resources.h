// What this machine offers: memory within the cgroups' limits, threads within
// their quota, and the CPU backend's facts as a profile for the planner.
#ifndef PLIMSOLL_WORKER_DEVICE_HOST_RESOURCES_H_
#define PLIMSOLL_WORKER_DEVICE_HOST_RESOURCES_H_

#include <cstdint>
#include <string>

#include "kernels/backend.h"
#include "planner/layout/device_profile.h"

namespace plimsoll::worker {

// Bytes of memory that this process may still use: the system's available
// memory, or what its cgroups leave if that is less. A file's pages in the
// cache that can be dropped at once count as available in both. 0 if either
// cannot be read, as where no descriptor is left: what is not known to be free
// is not. `root` is put in front of every path that is read; tests have their
// own.
int64_t AvailableMemoryBytes(const std::string& root = "");
// Physical memory, or the smallest limit of its cgroups if that is less and can
// be read.
int64_t TotalMemoryBytes();

// Threads worth starting: CPUs of the affinity mask within the cgroup's quota.
int UsableThreads();

// This process's peak and current resident memory (VmHWM, VmRSS).
int64_t PeakResidentBytes();
int64_t ResidentBytes();
// The current one again, counted page by page: slower, and free of the error of
// the kernel's counters, which grows with the number of CPUs.
int64_t ExactResidentBytes();
// From now on the peak is that of what comes. False if it cannot be reset.
bool ResetPeakResidentBytes();

// Turns a backend's facts into the planner's profile.
planner::DeviceProfile ProfileOf(const kernels::DeviceInfo& info);

// The profile of this machine's CPU, with its memory as it is now.
planner::DeviceProfile LocalCpuProfile();

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_HOST_RESOURCES_H_
