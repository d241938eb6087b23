#include "services/planner/planner.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/memory_plan.h"
#include "services/common/errors.h"
#include "services/common/from_proto.h"
#include "services/common/model_source.h"
#include "services/common/to_proto.h"

namespace plimsoll::services {
namespace {

constexpr uint64_t kMaxBytes = std::numeric_limits<int64_t>::max();

absl::StatusOr<int64_t> Signed(uint64_t value, absl::string_view field) {
  if (value > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " does not fit in 63 bits"));
  }
  return static_cast<int64_t>(value);
}

}  // namespace

absl::StatusOr<planner::ModelShape> Planner::ShapeOf(
    const v1::ModelSource& source) const {
  switch (source.source_case()) {
    case v1::ModelSource::kModel: {
      const auto found = models_.find(source.model());
      if (found != models_.end()) return found->second;
      return WithDetails(
          absl::NotFoundError("no model of this name is configured"),
          {v1::ERROR_REASON_MODEL_NOT_FOUND,
           {{"model", source.model()}},
           std::nullopt});
    }
    default:
      return ShapeFromSource(source);
  }
}

absl::Status Planner::DescribeModel(const v1::DescribeModelRequest& request,
                                    v1::DescribeModelResponse& response) const {
  ASSIGN_OR_RETURN(const planner::ModelShape shape, ShapeOf(request.source()));
  response = ToProto(shape);
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

absl::Status Planner::Plan(const v1::PlanRequest& request,
                           v1::PlanResponse& response) const {
  ASSIGN_OR_RETURN(const planner::ModelShape shape, ShapeOf(request.source()));
  ASSIGN_OR_RETURN(const planner::LoadOptions options,
                   FromProto(request.options(), planner::LoadOptions{}));
  ASSIGN_OR_RETURN(const Target target, TargetOf(request));
  ASSIGN_OR_RETURN(
      const planner::MemoryPlan plan,
      planner::Layout(shape, options, target.profile, target.budget_bytes));
  *response.mutable_plan() = ToProto(plan);
  return absl::OkStatus();
}

}  // namespace plimsoll::services
