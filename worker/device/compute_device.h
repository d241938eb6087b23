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

  // A backend for one engine. The CPU's computes on `pool`, which outlives it.
  // Errors: those of the backend's factory.
  virtual absl::StatusOr<std::unique_ptr<kernels::Backend>> NewBackend(
      kernels::ThreadPool& pool) const = 0;

  // The device with its memory as it is now. Nothing is free on a device that
  // does not answer.
  virtual planner::DeviceProfile Profile() const = 0;

  // Whether it answers. Errors: kUnavailable once it is lost: nothing works on
  // it any more in this process.
  virtual absl::Status Check() const { return absl::OkStatus(); }

  // Whether its memory and its threads are the host's.
  virtual bool is_host() const = 0;

  // Of the hardware, the same in every process and container; empty for a CPU.
  virtual std::string unique_id() const { return ""; }
};

// This machine's CPU.
const ComputeDevice& LocalCpu();

// What a GPU's backend does for engines of this precision.
kernels::CudaOptions CudaOptionsFor(Precision precision);

// "cpu" or "cuda:N", of which the latter has `options`. Errors:
// kInvalidArgument for another name; those of NewCudaBackend.
absl::StatusOr<std::unique_ptr<ComputeDevice>> OpenComputeDevice(
    absl::string_view name, const kernels::CudaOptions& options = {});

// A device with memory of its own, from its backends' factory and its reading.
// What the process takes of it beside its plans is measured here: the context,
// and what the first backend takes.
// Errors: those of the factory and of the reading.
using BackendFactory =
    std::function<absl::StatusOr<std::unique_ptr<kernels::Backend>>()>;
using MemoryReading = std::function<absl::StatusOr<kernels::DeviceMemory>()>;
absl::StatusOr<std::unique_ptr<ComputeDevice>> OpenAccelerator(
    BackendFactory factory, MemoryReading reading);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_DEVICE_COMPUTE_DEVICE_H_
