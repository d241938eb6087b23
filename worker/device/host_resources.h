// The resources of this machine: memory within the cgroups' limits, threads
// within their quota, and a profile of the CPU backend for the planner.
#ifndef PLIMSOLL_WORKER_DEVICE_HOST_RESOURCES_H_
#define PLIMSOLL_WORKER_DEVICE_HOST_RESOURCES_H_

#include <cstdint>
#include <string>

#include "kernels/backend.h"
#include "planner/layout/device_profile.h"
#include "planner/layout/memory_plan.h"

namespace plimsoll::worker {

class ComputeDevice;

// Bytes of memory that this process may still use: the system's available
// memory, or the rest of its cgroups if that is less. In both, a file's cached
// pages count as available if they can be dropped at once. Returns 0 if either
// cannot be read (for example if no descriptor is left): memory counts as free
// only if this is known. `root` is put in front of every path that is read, for
// tests.
int64_t AvailableMemoryBytes(const std::string& root = "");
// Physical memory, or the smallest limit of the cgroups if that is less and can
// be read.
int64_t TotalMemoryBytes();

// Threads worth starting: CPUs of the affinity mask within the cgroup's quota.
int UsableThreads();

// This process's peak and current resident memory (VmHWM, VmRSS).
int64_t PeakResidentBytes();
int64_t ResidentBytes();
// The current resident memory, counted page by page. This is slower than
// ResidentBytes(), but it does not have the error of the kernel's counters,
// which grows with the number of CPUs.
int64_t ExactResidentBytes();
// Starts a new peak at the current memory. Returns false if the system refuses.
bool ResetPeakResidentBytes();

// Turns a backend's facts into the planner's profile.
planner::DeviceProfile ProfileOf(const kernels::DeviceInfo& info);

// The profile of this machine's CPU, with its memory as it is now.
planner::DeviceProfile LocalCpuProfile();

// The host_budget_bytes for a plan with `options` on `device` of this machine:
// if the device has its own memory and experts will be in host memory, the
// experts take at most the free host memory. Without a device, or on the host,
// it is that of the options.
std::optional<int64_t> HostBudgetBytes(const planner::LoadOptions& options,
                                       const ComputeDevice* device);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_HOST_RESOURCES_H_
