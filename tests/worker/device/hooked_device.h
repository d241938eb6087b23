// The CPU as a device of its own whose backends have hooks: one that can be
// lost, or hang, and that computes while others do.
#ifndef PLIMSOLL_TESTS_WORKER_DEVICE_HOOKED_DEVICE_H_
#define PLIMSOLL_TESTS_WORKER_DEVICE_HOOKED_DEVICE_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "tests/worker/device/hooked_backend.h"
#include "worker/device/compute_device.h"

namespace plimsoll::testing {

class HookedDevice : public worker::ComputeDevice {
 public:
  explicit HookedDevice(BackendHooks hooks) : hooks_(std::move(hooks)) {}

  absl::StatusOr<std::unique_ptr<kernels::Backend>> NewBackend(
      kernels::ThreadPool& /*pool*/) const override {
    return std::make_unique<HookedBackend>(kernels::NewCpuBackend(OwnPool()),
                                           hooks_);
  }
  planner::DeviceProfile Profile() const override {
    return worker::LocalCpu().Profile();
  }
  bool is_host() const override { return false; }

 private:
  // The pool has no workers: its caller computes.
  static kernels::ThreadPool& OwnPool() {
    static auto* const pool =
        new kernels::ThreadPool(/*n_threads=*/1, kernels::WorkerCpus::kAny);
    return *pool;
  }

  const BackendHooks hooks_;
};

// The CPU as a device that says that its memory is its own.
class FarDevice : public HookedDevice {
 public:
  FarDevice() : HookedDevice({}) {}
  planner::DeviceProfile Profile() const override {
    planner::DeviceProfile profile = HookedDevice::Profile();
    profile.kind = "gpu";
    return profile;
  }
};

// A device of which every operation fails once it is lost.
class LosableDevice final : public HookedDevice {
 public:
  LosableDevice() : LosableDevice(std::make_shared<std::atomic<bool>>()) {}

  void Lose() { *is_lost_ = true; }
  absl::Status Check() const override { return Status(*is_lost_); }

  static absl::Status Status(bool is_lost) {
    return is_lost ? absl::UnavailableError("fell off the bus")
                   : absl::OkStatus();
  }

 private:
  explicit LosableDevice(const std::shared_ptr<std::atomic<bool>>& is_lost)
      : HookedDevice({.before = [is_lost] { return Status(*is_lost); }}),
        is_lost_(is_lost) {}

  const std::shared_ptr<std::atomic<bool>> is_lost_;
};

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_DEVICE_HOOKED_DEVICE_H_
