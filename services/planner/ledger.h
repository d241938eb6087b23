// Who holds how much of which device: the lease book and the device registry
// behind one mutex.
#ifndef PLIMSOLL_SERVICES_PLANNER_LEDGER_H_
#define PLIMSOLL_SERVICES_PLANNER_LEDGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "planner/device_profile.h"
#include "planner/lease_book.h"
#include "plimsoll/v1/planner.pb.h"

namespace plimsoll::services {

// Thread-safe. Every method that takes a request answers one call of
// PlannerService; planner.proto says what each does, and errors carry their
// ErrorDetails.
class Ledger {
 public:
  // A registered device, and the bytes that a Reserve could get now.
  struct Device {
    planner::DeviceProfile profile;
    int64_t available_bytes;
  };

  // `clock` never goes back.
  explicit Ledger(std::function<absl::Time()> clock)
      : clock_(std::move(clock)) {}

  // Errors: kNotFound with DEVICE_NOT_FOUND.
  absl::StatusOr<Device> FindDevice(const std::string& id)
      ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<Device> Devices() ABSL_LOCKS_EXCLUDED(mu_);  // by id

  absl::Status Reserve(const v1::ReserveRequest& request,
                       v1::ReserveResponse& response) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Confirm(const v1::ConfirmRequest& request,
                       v1::ConfirmResponse& response) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Renew(const v1::RenewRequest& request,
                     v1::RenewResponse& response) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Release(const v1::ReleaseRequest& request,
                       v1::ReleaseResponse& response) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status RegisterDevice(const v1::RegisterDeviceRequest& request,
                              v1::RegisterDeviceResponse& response)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status ListDevices(v1::ListDevicesResponse& response)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status ListLeases(const v1::ListLeasesRequest& request,
                          v1::ListLeasesResponse& response)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  v1::Device Describe(const planner::BookedDevice& device) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes over what the device itself says is free.
  absl::Status Read(const std::string& device_id, uint64_t free_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::function<absl::Time()> clock_;
  absl::Mutex mu_;
  planner::LeaseBook book_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, planner::DeviceProfile> profiles_ ABSL_GUARDED_BY(mu_);
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_LEDGER_H_
