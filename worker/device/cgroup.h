// What the control groups of this process leave it: memory and CPU time, in
// version 1, version 2, and both at once.
#ifndef PLIMSOLL_WORKER_DEVICE_CGROUP_H_
#define PLIMSOLL_WORKER_DEVICE_CGROUP_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace plimsoll::worker {

// The tightest of the process's own cgroup and all that we see above it.
struct CgroupMemory {
  std::optional<int64_t> limit_bytes;  // the smallest limit; absent = none
  // The smallest rest: the limit less what is used, where file pages that the
  // kernel can drop at once count as not used. Absent = no cgroup has both.
  std::optional<int64_t> available_bytes;
};

// A file that does not exist limits nothing. `root` is put in front of every
// path that is read; tests have their own. Errors: kUnavailable if a limit or
// what is used cannot be read, so that nobody knows what is left.
absl::StatusOr<CgroupMemory> ReadCgroupMemory(const std::string& root = "");

// CPUs that the smallest quota allows, rounded up; absent without a quota that
// can be read.
std::optional<int64_t> ReadCgroupCpus(const std::string& root = "");

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_CGROUP_H_
