#include "services/cli/doctor/gpu.h"

#include <filesystem>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "services/cli/terminal/bytes.h"
#include "worker/device/compute_device.h"
#include "worker/device/kernel_file.h"

namespace plimsoll::cli {
namespace {

// A file that the driver makes, on Linux and on Linux under Windows.
std::string FindDeviceFile(const std::string& root) {
  for (const char* path : {"/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"}) {
    std::error_code error;
    if (std::filesystem::exists(root + path, error)) return path;
  }
  return "";
}

// The version in "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95  Tue
// ...": the first word of digits and dots.
std::string DriverVersion(const std::string& root) {
  const absl::StatusOr<std::string> text =
      worker::ReadKernelFile(root + "/proc/driver/nvidia/version");
  if (!text.ok()) return "";
  for (const absl::string_view word :
       absl::StrSplit(*text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty())) {
    const bool is_version =
        word.find_first_not_of("0123456789.") == absl::string_view::npos &&
        word.find('.') != absl::string_view::npos;
    if (is_version) return std::string(word);
  }
  return "";
}

std::string DevicesText(const GpuReadings& gpus) {
  std::vector<std::string> texts;
  for (const planner::DeviceProfile& device : gpus.devices) {
    texts.push_back(absl::StrCat(device.id, " is ", device.name, " with ",
                                 FormatBytes(device.free_bytes), " of ",
                                 FormatBytes(device.total_bytes), " free"));
  }
  return absl::StrJoin(texts, "; ");
}

std::string FixOf(const absl::Status& failure) {
  if (absl::IsFailedPrecondition(failure)) {
    return "update NVIDIA's driver, or take a GPU of compute capability 8.0 or "
           "newer; --device cpu works without one";
  }
  return "see what nvidia-smi and dmesg say, whether this user may open "
         "/dev/nvidia*, and whether CUDA_VISIBLE_DEVICES hides the GPU; "
         "--device cpu works without one";
}

}  // namespace

GpuReadings ReadGpus(const std::string& root) {
  GpuReadings gpus{.has_kernels = true,
                   .device_file = FindDeviceFile(root),
                   .driver = DriverVersion(root)};
  for (int i = 0; i < kMaxCheckedGpus; ++i) {
    const auto device = worker::OpenComputeDevice(absl::StrCat("cuda:", i));
    if (device.ok()) {
      gpus.devices.push_back((*device)->Profile());
      continue;
    }
    gpus.has_kernels = !absl::IsUnimplemented(device.status());
    // After the last device there is no next one.
    const bool is_end =
        !gpus.has_kernels || (i > 0 && absl::IsNotFound(device.status()));
    if (!is_end) gpus.failure = device.status();
    break;
  }
  return gpus;
}

Diagnosis CheckGpus(const GpuReadings& gpus) {
  Diagnosis found{.name = "gpu"};
  if (!gpus.has_kernels) {
    found.found =
        gpus.device_file.empty()
            ? "no GPU, and this build has no CUDA kernels"
            : absl::StrCat("there is ", gpus.device_file,
                           ", but this build has no CUDA kernels: it runs on "
                           "the CPU");
    return found;
  }
  if (gpus.devices.empty() && gpus.device_file.empty() &&
      (gpus.failure.ok() || absl::IsNotFound(gpus.failure))) {
    found.found = "no GPU";
    return found;
  }
  found.found = DevicesText(gpus);
  if (!gpus.driver.empty()) {
    absl::StrAppend(&found.found, found.found.empty() ? "" : "; ", "driver ",
                    gpus.driver);
  }
  if (gpus.failure.ok()) return found;
  found.health = Health::kWarning;
  absl::StrAppend(&found.found, found.found.empty() ? "" : "; ",
                  "cuda:", gpus.devices.size(),
                  " cannot be opened: ", gpus.failure.message());
  found.fix = FixOf(gpus.failure);
  return found;
}

}  // namespace plimsoll::cli
