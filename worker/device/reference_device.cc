#include "worker/device/reference_device.h"

#include <memory>

#include "kernels/backend.h"
#include "worker/device/host_resources.h"

namespace plimsoll::worker {
namespace {

class ReferenceDevice final : public ComputeDevice {
 public:
  absl::StatusOr<std::unique_ptr<kernels::Backend>> NewBackend(
      kernels::ThreadPool& /*pool*/) const override {
    return kernels::NewReferenceBackend();
  }
  planner::DeviceProfile Profile() const override {
    planner::DeviceProfile profile =
        ProfileOf(kernels::NewReferenceBackend()->Device());
    profile.total_bytes = TotalMemoryBytes();
    profile.free_bytes = AvailableMemoryBytes();
    return profile;
  }
  bool is_host() const override { return true; }
};

}  // namespace

const ComputeDevice& ReferenceCpu() {
  static const ReferenceDevice* const device = new ReferenceDevice;
  return *device;
}

}  // namespace plimsoll::worker
