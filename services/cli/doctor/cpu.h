// Checks the CPU: the instructions that the kernels use, and the number of
// CPUs.
#ifndef PLIMSOLL_SERVICES_CLI_DOCTOR_CPU_H_
#define PLIMSOLL_SERVICES_CLI_DOCTOR_CPU_H_

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/cpu/amx_probe.h"
#include "services/cli/doctor/diagnosis.h"

namespace plimsoll::cli {

struct CpuReadings {
  std::string brand;
  std::string path;     // the kernels' instruction path
  std::string vectors;  // vectors that the path uses
  kernels::AmxState amx = kernels::AmxState::kAbsent;
  int64_t n_usable = 1;                 // CPUs that this process computes on
  int64_t n_machine = 1;                // CPUs that are online
  std::optional<int64_t> n_quota = {};  // CPUs that the cgroups' quota allows
};

// Takes some milliseconds: it times the paths, as a load does.
CpuReadings ReadCpu();

Diagnosis CheckCpuPath(const CpuReadings& cpu);
Diagnosis CheckCpuCount(const CpuReadings& cpu);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_DOCTOR_CPU_H_
