#include "services/http/local/local_planner.h"

#include <google/protobuf/message.h>

#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "base/status_macros.h"
#include "plimsoll/v1/planner.pb.h"
#include "services/host/clock.h"
#include "services/planner/planner_reload.h"
#include "services/planner/what_if_queries.h"
#include "services/sources/catalogue_file.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

using google::protobuf::Message;

// An answer that takes any messages, of one that takes those of its query.
template <typename Request, typename Response, typename Answer>
auto Typed(Answer answer) {
  return [answer](const Message& request, Message& response, StopCheck stop) {
    return answer(static_cast<const Request&>(request),
                  static_cast<Response&>(response), stop);
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalPlanner>> LocalPlanner::Create(
    const std::vector<ModelFlag>& models, std::vector<WorkerDevice> devices) {
  ASSIGN_OR_RETURN(auto catalogue, LoadCatalogue(/*own_path=*/""));
  auto local = absl::WrapUnique(
      new LocalPlanner(std::move(devices), std::move(catalogue)));
  RETURN_IF_ERROR(local->SetModels(models));
  return local;
}

LocalPlanner::LocalPlanner(std::vector<WorkerDevice> devices,
                           planner::DeviceCatalogue catalogue)
    : devices_(std::move(devices)),
      ledger_(BootTime),
      planner_({}, ledger_),
      placement_({[this](const v1::ModelSource& source) {
                    return planner_.ShapeOf(source);
                  },
                  [this](v1::ListDevicesResponse& listed) {
                    return ledger_.ListDevices(listed);
                  }},
                 std::move(catalogue)),
      answers_(MakeAnswers()) {}

LocalPlanner::Answers LocalPlanner::MakeAnswers() {
  return {
      {"BatchPlan", Typed<v1::BatchPlanRequest, v1::BatchPlanResponse>(
                        [this](auto& request, auto& response, StopCheck stop) {
                          return BatchPlan(planner_, request, response, stop);
                        })},
      {"DescribeModel",
       Typed<v1::DescribeModelRequest, v1::DescribeModelResponse>(
           [this](auto& request, auto& response, StopCheck /*stop*/) {
             return planner_.DescribeModel(request, response);
           })},
      {"FindDevices",
       Typed<v1::FindDevicesRequest, v1::FindDevicesResponse>(
           [this](auto& request, auto& response, StopCheck stop) {
             return placement_.FindDevices(request, response, stop);
           })},
      {"GetBounds",
       Typed<v1::GetBoundsRequest, v1::GetBoundsResponse>(
           [this](auto& request, auto& response, StopCheck /*stop*/) {
             return placement_.GetBounds(request, response);
           })},
      {"ListCatalogue",
       Typed<v1::ListCatalogueRequest, v1::ListCatalogueResponse>(
           [this](auto& /*request*/, auto& response, StopCheck /*stop*/) {
             return placement_.ListCatalogue(response);
           })},
      {"ListDevices",
       Typed<v1::ListDevicesRequest, v1::ListDevicesResponse>(
           [this](auto& /*request*/, auto& response, StopCheck /*stop*/) {
             return ledger_.ListDevices(response);
           })},
      {"Plan", Typed<v1::PlanRequest, v1::PlanResponse>(
                   [this](auto& request, auto& response, StopCheck /*stop*/) {
                     return planner_.Plan(request, response);
                   })},
      {"PlaceModels",
       Typed<v1::PlaceModelsRequest, v1::PlaceModelsResponse>(
           [this](auto& request, auto& response, StopCheck stop) {
             return placement_.PlaceModels(request, response, stop);
           })},
      {"PlanSet", Typed<v1::PlanSetRequest, v1::PlanSetResponse>(
                      [this](auto& request, auto& response, StopCheck stop) {
                        return planner_.PlanSet(request, response, stop);
                      })},
      {"PlanSplit", Typed<v1::PlanSplitRequest, v1::PlanSplitResponse>(
                        [this](auto& request, auto& response, StopCheck stop) {
                          return planner_.PlanSplit(request, response, stop);
                        })}};
}

absl::Status LocalPlanner::SetModels(const std::vector<ModelFlag>& models) {
  ASSIGN_OR_RETURN(Planner::Models shapes, ReadPlannerModels(models));
  planner_.SetModels(std::move(shapes));
  return absl::OkStatus();
}

absl::Status LocalPlanner::ReadDevices() {
  for (const WorkerDevice& device : devices_) {
    v1::RegisterDeviceRequest request;
    *request.mutable_profile() = ToProto(device.profile());
    request.mutable_profile()->set_id(device.id);
    v1::RegisterDeviceResponse response;
    RETURN_IF_ERROR(ledger_.RegisterDevice(request, response));
  }
  return absl::OkStatus();
}

absl::Status LocalPlanner::Ask(absl::string_view method, const Message& request,
                               Message& response, const TokenCaller& caller) {
  const auto answer = answers_.find(std::string(method));
  if (answer == answers_.end()) {
    return absl::UnimplementedError("this server does not answer the query");
  }
  RETURN_IF_ERROR(ReadDevices());
  return answer->second(request, response, caller.stop);
}

}  // namespace plimsoll::services
