// Checks the machine's memory: the available bytes, and settings that make
// memory readings wrong.
#ifndef PLIMSOLL_SERVICES_CLI_DOCTOR_MEMORY_H_
#define PLIMSOLL_SERVICES_CLI_DOCTOR_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "services/cli/doctor/diagnosis.h"
#include "worker/device/cgroup.h"
#include "worker/device/memory_settings.h"

namespace plimsoll::cli {

struct MemoryReadings {
  int64_t available_bytes = 0;  // as a worker counts them
  int64_t physical_bytes = 0;
  absl::StatusOr<worker::CgroupMemory> cgroup = worker::CgroupMemory();
  std::optional<int64_t> cgroup_swap_bytes = {};  // swap that the cgroups allow
  worker::MemorySettings settings = {};
};

// `root` is put in front of every path that is read, for tests.
MemoryReadings ReadMemory(const std::string& root = "");

Diagnosis CheckAvailable(const MemoryReadings& memory);
Diagnosis CheckCgroup(const MemoryReadings& memory);
Diagnosis CheckSwap(const MemoryReadings& memory);
Diagnosis CheckHugePages(const MemoryReadings& memory);
Diagnosis CheckOvercommit(const MemoryReadings& memory);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_DOCTOR_MEMORY_H_
