#include "worker/device/compute_device.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "worker/device/host_resources.h"

namespace plimsoll::worker {
namespace {

// Reserved for what a process takes of its device after its first backend: an
// engine's stream and events, and the driver's pages for them. Each is some
// KiB.
constexpr int64_t kRuntimeSafetyBytes = int64_t{8} << 20;
constexpr int64_t kMebibyte = int64_t{1} << 20;

class CpuDevice final : public ComputeDevice {
 public:
  absl::StatusOr<std::unique_ptr<kernels::Backend>> NewBackend(
      kernels::ThreadPool& pool) const override {
    return kernels::NewCpuBackend(pool);
  }
  planner::DeviceProfile Profile() const override { return LocalCpuProfile(); }
  bool is_host() const override { return true; }
};

class Accelerator final : public ComputeDevice {
 public:
  Accelerator(BackendFactory factory, MemoryReading reading,
              planner::DeviceProfile profile, std::string unique_id)
      : factory_(std::move(factory)),
        reading_(std::move(reading)),
        profile_(std::move(profile)),
        unique_id_(std::move(unique_id)) {}

  absl::StatusOr<std::unique_ptr<kernels::Backend>> NewBackend(
      kernels::ThreadPool& /*pool*/) const override {
    return factory_();
  }
  planner::DeviceProfile Profile() const override {
    planner::DeviceProfile profile = profile_;
    const absl::StatusOr<kernels::DeviceMemory> memory = reading_();
    profile.free_bytes = memory.ok() ? memory->free_bytes : 0;
    return profile;
  }
  absl::Status Check() const override { return reading_().status(); }
  bool is_host() const override { return false; }
  std::string unique_id() const override { return unique_id_; }

 private:
  const BackendFactory factory_;
  const MemoryReading reading_;
  const planner::DeviceProfile profile_;
  const std::string unique_id_;
};

absl::StatusOr<std::unique_ptr<ComputeDevice>> OpenCuda(
    int index, const kernels::CudaOptions& options) {
  return OpenAccelerator(
      [index, options] { return kernels::NewCudaBackend(index, options); },
      [index] { return kernels::ReadCudaMemory(index); });
}

}  // namespace

const ComputeDevice& LocalCpu() {
  static const CpuDevice* const device = new CpuDevice;
  return *device;
}

kernels::CudaOptions CudaOptionsFor(Precision precision) {
  // Nothing is rounded to F16 where exact results are asked for.
  return precision == Precision::kDefault ? kernels::CudaOptions()
                                          : kernels::BatchInvariant();
}

absl::StatusOr<std::unique_ptr<ComputeDevice>> OpenComputeDevice(
    absl::string_view name, const kernels::CudaOptions& options) {
  if (name == "cpu") return std::make_unique<CpuDevice>();
  absl::string_view rest = name;
  int32_t index = 0;
  if (absl::ConsumePrefix(&rest, "cuda:") && absl::SimpleAtoi(rest, &index) &&
      index >= 0) {
    return OpenCuda(index, options);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("device \"", name.substr(0, 40),
                   "\" is neither cpu nor cuda:N, such as cuda:0"));
}

absl::StatusOr<std::unique_ptr<ComputeDevice>> OpenAccelerator(
    BackendFactory factory, MemoryReading reading) {
  // The first backend makes the context; only a second one shows what a backend
  // takes.
  ASSIGN_OR_RETURN(const std::unique_ptr<kernels::Backend> first, factory());
  ASSIGN_OR_RETURN(const kernels::DeviceMemory before, reading());
  ASSIGN_OR_RETURN(const std::unique_ptr<kernels::Backend> second, factory());
  ASSIGN_OR_RETURN(const kernels::DeviceMemory after, reading());
  planner::DeviceProfile profile = ProfileOf(second->Device());
  profile.total_bytes = after.total_bytes;
  if (after.runtime_bytes > 0) {
    const int64_t backend_bytes =
        std::max<int64_t>(before.free_bytes - after.free_bytes, 0);
    profile.runtime_bytes =
        CeilDiv(after.runtime_bytes + backend_bytes +
                    second->Device().graph_bytes + kRuntimeSafetyBytes,
                kMebibyte) *
        kMebibyte;
    profile.runtime_basis = planner::Basis::kMeasured;
    profile.runtime_note = absl::StrCat(
        "context and code on the device, ", after.runtime_bytes,
        " bytes when this process opened it, ", second->Device().graph_bytes,
        " for graphs, and ", kRuntimeSafetyBytes, " for streams and events");
  }
  std::string unique_id = second->Device().unique_id;
  return std::make_unique<Accelerator>(std::move(factory), std::move(reading),
                                       std::move(profile),
                                       std::move(unique_id));
}

}  // namespace plimsoll::worker
