// Checks whether the build can use GPUs, and whether their driver answers.
#ifndef PLIMSOLL_SERVICES_CLI_DOCTOR_GPU_H_
#define PLIMSOLL_SERVICES_CLI_DOCTOR_GPU_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "planner/layout/device_profile.h"
#include "services/cli/doctor/diagnosis.h"

namespace plimsoll::cli {

// At most this many GPUs are opened.
inline constexpr int kMaxCheckedGpus = 64;

struct GpuReadings {
  bool has_kernels = false;      // the build has CUDA kernels
  std::string device_file = {};  // a driver's file; empty = none
  std::string driver = {};       // the driver's version; empty = unknown
  std::vector<planner::DeviceProfile> devices = {};
  // The reason why the next device could not be opened. OK if there are no more
  // devices.
  absl::Status failure = absl::OkStatus();
};

// Opens every GPU as a worker does, which takes a second for each. `root` is
// put in front of the paths of files, for tests.
GpuReadings ReadGpus(const std::string& root = "");

Diagnosis CheckGpus(const GpuReadings& gpus);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_DOCTOR_GPU_H_
