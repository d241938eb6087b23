#include "services/planner/planner.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/layout/layer_split.h"
#include "planner/layout/memory_plan.h"
#include "planner/layout/model_set.h"
#include "services/planner/request_shapes.h"
#include "services/sources/model_source.h"
#include "services/wire/errors.h"
#include "services/wire/from_proto.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
absl::StatusOr<Planner::Shape> Planner::ShapeOf(
    const v1::ModelSource& source) const {
  switch (source.source_case()) {
    case v1::ModelSource::kModel: {
      absl::MutexLock lock(&mu_);
      const auto found = models_.find(source.model());
      if (found != models_.end()) return found->second;
      return WithDetails(
          absl::NotFoundError("no model of this name is configured"),
          {v1::ERROR_REASON_MODEL_NOT_FOUND,
           {{"model", source.model()}},
           std::nullopt});
    }
    default: {
      ASSIGN_OR_RETURN(planner::ModelShape shape, ShapeFromSource(source));
      return std::make_shared<const planner::ModelShape>(std::move(shape));
    }
  }
}

void Planner::SetModels(Models models) {
  absl::MutexLock lock(&mu_);
  models_ = std::move(models);
}

absl::Status Planner::DescribeModel(const v1::DescribeModelRequest& request,
                                    v1::DescribeModelResponse& response) const {
  ASSIGN_OR_RETURN(const Shape shape, ShapeOf(request.source()));
  response = ToProto(*shape);
  return absl::OkStatus();
}

absl::StatusOr<Planner::Target> Planner::TargetOf(
    const v1::PlanRequest& request) const {
  Target target;
  std::optional<int64_t> limit;
  if (request.has_budget_bytes()) {
    ASSIGN_OR_RETURN(limit, Signed(request.budget_bytes(), "budget_bytes"));
  }
  if (request.has_profile()) {
    ASSIGN_OR_RETURN(target.profile, FromProto(request.profile()));
    target.budget_bytes = limit.value_or(target.profile.free_bytes);
    return target;
  }
  if (!request.has_device_id()) {
    if (!limit.has_value()) {
      return absl::InvalidArgumentError(
          "budget_bytes is needed where no device is given");
    }
    target.profile = planner::CommittedCpuProfile();
    target.budget_bytes = *limit;
    return target;
  }
  ASSIGN_OR_RETURN(const Ledger::Device device,
                   ledger_.FindDevice(request.device_id(), request.purpose()));
  target.profile = device.profile;
  target.budget_bytes =
      std::min(device.available_bytes, limit.value_or(device.available_bytes));
  return target;
}

absl::Status Planner::PlanSet(const v1::PlanSetRequest& request,
                              v1::PlanSetResponse& response,
                              StopCheck stop) const {
  if (request.models_size() > planner::kMaxModelsInSet) {
    return absl::InvalidArgumentError(
        absl::StrCat("models has ", request.models_size(), " entries, at most ",
                     planner::kMaxModelsInSet, " are accepted"));
  }
  std::vector<planner::SetMember> members;
  RequestShapes shapes(
      [this](const v1::ModelSource& source) { return ShapeOf(source); });
  int64_t n_layers = 0;
  for (const v1::ModelLoad& model : request.models()) {
    RETURN_IF_ERROR(stop());
    ASSIGN_OR_RETURN(const Shape shape, shapes.Get(model.source()));
    n_layers += shape->n_layers;
    // Shapes cost more than plans, so requests are checked before shapes are
    // made.
    if (n_layers > planner::kMaxLayersInSet) {
      return absl::InvalidArgumentError(
          absl::StrCat("models have ", n_layers, " layers or more, at most ",
                       planner::kMaxLayersInSet, " are accepted"));
    }
    ASSIGN_OR_RETURN(const planner::PlanOptions options,
                     FromProto(model.options()));
    members.push_back({*shape, options});
  }
  ASSIGN_OR_RETURN(const Target target, TargetOf(request));
  ASSIGN_OR_RETURN(
      const planner::SetPlan set,
      planner::PlanSet(members, target.profile, target.budget_bytes, stop));
  response = ToProto(set);
  return absl::OkStatus();
}

absl::Status Planner::PlanSplit(const v1::PlanSplitRequest& request,
                                v1::PlanSplitResponse& response,
                                StopCheck stop) const {
  if (request.devices_size() > planner::kMaxSplitDevices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "devices has ", request.devices_size(), " entries, at most ",
        planner::kMaxSplitDevices, " are accepted"));
  }
  ASSIGN_OR_RETURN(const Shape shape, ShapeOf(request.source()));
  ASSIGN_OR_RETURN(const planner::PlanOptions options,
                   FromProto(request.options()));
  std::vector<planner::SplitDevice> devices;
  for (const v1::SplitDevice& device : request.devices()) {
    ASSIGN_OR_RETURN(Target target, TargetOf(device, request.purpose()));
    devices.push_back({std::move(target.profile), target.budget_bytes});
  }
  ASSIGN_OR_RETURN(const planner::SplitPlan split,
                   planner::SplitLayers(*shape, options, devices, stop));
  response = ToProto(split, devices);
  return absl::OkStatus();
}

absl::Status Planner::Plan(const v1::PlanRequest& request,
                           v1::PlanResponse& response) const {
  ASSIGN_OR_RETURN(const Shape shape, ShapeOf(request.source()));
  return PlanShape(*shape, request, response);
}

absl::Status Planner::PlanShape(const planner::ModelShape& shape,
                                const v1::PlanRequest& request,
                                v1::PlanResponse& response) const {
  ASSIGN_OR_RETURN(const planner::PlanOptions options,
                   FromProto(request.options()));
  ASSIGN_OR_RETURN(const Target target, TargetOf(request));
  ASSIGN_OR_RETURN(
      const planner::MemoryPlan plan,
      planner::Layout(shape, options, target.profile, target.budget_bytes));
  *response.mutable_plan() = ToProto(plan);
  return absl::OkStatus();
}

}  // namespace plimsoll::services
