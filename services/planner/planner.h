// Answers the planning calls. Plans reserve nothing. Their devices are
// registered in the ledger, or described by the request.
#ifndef PLIMSOLL_SERVICES_PLANNER_PLANNER_H_
#define PLIMSOLL_SERVICES_PLANNER_PLANNER_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/stop_check.h"
#include "planner/layout/device_profile.h"
#include "planner/model/model_shape.h"
#include "plimsoll/v1/planner.pb.h"
#include "services/planner/ledger.h"

namespace plimsoll::services {

// Thread-safe. Every method answers one call of PlannerService; planner.proto
// says what each does, and errors carry their ErrorDetails. Long work returns
// the error of `stop` as soon as there is one.
class Planner {
 public:
  // Shapes are shared, because the many tensors of a large model take long to
  // copy.
  using Shape = std::shared_ptr<const planner::ModelShape>;
  using Models = std::map<std::string, Shape>;  // by name

  // `ledger` must outlive it.
  Planner(Models models, Ledger& ledger)
      : models_(std::move(models)), ledger_(ledger) {}

  // Replaces the models that requests may name. A request that has found its
  // model continues with that model.
  void SetModels(Models models) ABSL_LOCKS_EXCLUDED(mu_);

  absl::Status DescribeModel(const v1::DescribeModelRequest& request,
                             v1::DescribeModelResponse& response) const;
  absl::Status Plan(const v1::PlanRequest& request,
                    v1::PlanResponse& response) const;
  // Plans like Plan, for a shape that the caller has.
  absl::Status PlanShape(const planner::ModelShape& shape,
                         const v1::PlanRequest& request,
                         v1::PlanResponse& response) const;
  absl::Status PlanSet(const v1::PlanSetRequest& request,
                       v1::PlanSetResponse& response,
                       StopCheck stop = NeverStop) const;
  absl::Status PlanSplit(const v1::PlanSplitRequest& request,
                         v1::PlanSplitResponse& response,
                         StopCheck stop = NeverStop) const;

  // Returns the shape of the model that a request names or describes.
  absl::StatusOr<Shape> ShapeOf(const v1::ModelSource& source) const;
  // The device and budget of a plan. Queries of many plans use it.
  struct Target {
    planner::DeviceProfile profile;
    int64_t budget_bytes;
  };

  absl::StatusOr<Target> TargetOf(const v1::PlanRequest& request) const;
  // Returns the target of any message with a device and a budget.
  template <typename Message>
  absl::StatusOr<Target> TargetOf(const Message& request,
                                  const std::string& purpose = "") const {
    v1::PlanRequest plan;
    plan.set_purpose(purpose);
    if (request.has_device_id()) plan.set_device_id(request.device_id());
    if (request.has_profile()) *plan.mutable_profile() = request.profile();
    if (request.has_budget_bytes()) {
      plan.set_budget_bytes(request.budget_bytes());
    }
    return TargetOf(plan);
  }

 private:
  mutable absl::Mutex mu_;
  Models models_ ABSL_GUARDED_BY(mu_);
  Ledger& ledger_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_PLANNER_H_
