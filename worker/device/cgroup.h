// The memory, CPU time and threads that this process's control groups still
// allow it. It reads version 1, version 2, and both at once.
#ifndef PLIMSOLL_WORKER_DEVICE_CGROUP_H_
#define PLIMSOLL_WORKER_DEVICE_CGROUP_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace plimsoll::worker {

// The tightest limits of the process's own cgroup and of all visible cgroups
// above it.
struct CgroupMemory {
  std::optional<int64_t> limit_bytes;  // the smallest limit; absent = none
  std::string limit_file;              // the file with the smallest limit
  // The smallest rest of a cgroup: its limit minus its use. File pages that the
  // kernel can drop at once count as not used. Absent = no cgroup has both
  // numbers.
  std::optional<int64_t> available_bytes;
};

// Reads memory limits. A file that does not exist limits nothing. `root` is put
// in front of every path that is read, for tests. Errors: kUnavailable if a
// limit or the used memory cannot be read, so that the rest is unknown.
absl::StatusOr<CgroupMemory> ReadCgroupMemory(const std::string& root = "");

// The bytes of swap that the cgroups of version 2 allow this process. Absent if
// they limit none, or if a limit cannot be read.
std::optional<int64_t> ReadCgroupSwap(const std::string& root = "");

// The limit and the number of threads and processes, for the cgroup with the
// smallest rest.
struct CgroupTasks {
  int64_t limit;
  int64_t used;
  std::string limit_file;
};
// Absent if no cgroup limits threads, or if a file cannot be read.
std::optional<CgroupTasks> ReadCgroupTasks(const std::string& root = "");

// CPUs that the smallest quota allows, rounded up. Absent if there is no quota,
// or no readable one.
std::optional<int64_t> ReadCgroupCpus(const std::string& root = "");

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_CGROUP_H_
