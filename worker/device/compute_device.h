// A device that engines run on: this machine's CPU, or one with memory of its
// own.
#ifndef PLIMSOLL_WORKER_DEVICE_COMPUTE_DEVICE_H_
#define PLIMSOLL_WORKER_DEVICE_COMPUTE_DEVICE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"
#include "planner/layout/device_profile.h"
#include "worker/device/precision.h"

namespace plimsoll::worker {

// Outlives the engines on it. Thread-safe.
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;

  // Makes a backend for one engine. The CPU's backend computes on `pool`, which
  // outlives it. Errors: those of the backend's factory.
  virtual absl::StatusOr<std::unique_ptr<kernels::Backend>> NewBackend(
      kernels::ThreadPool& pool) const = 0;

  // The device's profile, with its memory as it is now. A device that does not
  // answer has no free memory.
  virtual planner::DeviceProfile Profile() const = 0;

  // Checks whether the device answers. Errors: kUnavailable after the device is
  // lost; this process cannot use it any more.
  virtual absl::Status Check() const { return absl::OkStatus(); }

  // True if the device's memory and threads are the host's.
  virtual bool is_host() const = 0;

  // Identifies the hardware, in every process and container. Empty for a CPU.
  virtual std::string unique_id() const { return ""; }
};

// This machine's CPU.
const ComputeDevice& LocalCpu();

// The options of a GPU's backend for engines of this precision.
kernels::CudaOptions CudaOptionsFor(Precision precision);

// Opens "cpu" or "cuda:N"; a "cuda:N" gets `options`. Errors: kInvalidArgument
// for another name; those of NewCudaBackend.
absl::StatusOr<std::unique_ptr<ComputeDevice>> OpenComputeDevice(
    absl::string_view name, const kernels::CudaOptions& options = {});

// Opens a device with memory of its own, given its backends' factory and its
// memory reading. It measures the device memory that the process uses outside
// its plans: the context, and the memory of the first backend.
// Errors: those of the factory and of the reading.
using BackendFactory =
    std::function<absl::StatusOr<std::unique_ptr<kernels::Backend>>()>;
using MemoryReading = std::function<absl::StatusOr<kernels::DeviceMemory>()>;
absl::StatusOr<std::unique_ptr<ComputeDevice>> OpenAccelerator(
    BackendFactory factory, MemoryReading reading);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_COMPUTE_DEVICE_H_
