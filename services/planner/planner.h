// The planner behind its service: pure plans, and one lease book under one
// mutex.
#ifndef PLIMSOLL_SERVICES_PLANNER_PLANNER_H_
#define PLIMSOLL_SERVICES_PLANNER_PLANNER_H_

#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "planner/device_profile.h"
#include "planner/lease_book.h"
#include "planner/model_shape.h"
#include "plimsoll/v1/planner.pb.h"

namespace plimsoll::services {

// Thread-safe. Every method answers one call of PlannerService; planner.proto
// says what each does, and errors carry their ErrorDetails.
class Planner {
 public:
  using Models = std::map<std::string, planner::ModelShape>;  // by name

  // `clock` never goes back.
  Planner(Models models, std::function<absl::Time()> clock)
      : models_(std::move(models)), clock_(std::move(clock)) {}

  absl::Status DescribeModel(const v1::DescribeModelRequest& request,
                             v1::DescribeModelResponse& response) const;
  absl::Status Plan(const v1::PlanRequest& request, v1::PlanResponse& response)
      ABSL_LOCKS_EXCLUDED(mu_);
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

  // The shape of the model that a request means.
  absl::StatusOr<planner::ModelShape> ShapeOf(
      const v1::ModelSource& source) const;
  // What a plan is for, for queries of many plans.
  struct Target {
    planner::DeviceProfile profile;
    int64_t budget_bytes;
  };

  absl::StatusOr<Target> TargetOf(const v1::PlanRequest& request)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  v1::Device Describe(const planner::BookedDevice& device) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes over what the device itself says is free.
  absl::Status Read(const std::string& device_id, uint64_t free_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Models models_;
  const std::function<absl::Time()> clock_;
  absl::Mutex mu_;
  planner::LeaseBook book_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, planner::DeviceProfile> profiles_ ABSL_GUARDED_BY(mu_);
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_PLANNER_H_
