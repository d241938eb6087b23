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

// Answers a query by the method of `room` that takes its messages.
template <typename Room, typename Request, typename Response>
auto AnswerOf(const Room& room,
              absl::Status (Room::*method)(const Request&, Response&) const) {
  return [&room, method](const Message& request, Message& response,
                         StopCheck /*stop*/) {
    return (room.*method)(static_cast<const Request&>(request),
                          static_cast<Response&>(response));
  };
}

// Does the same by a method that can be stopped.
template <typename Room, typename Request, typename Response>
auto AnswerOf(const Room& room,
              absl::Status (Room::*method)(const Request&, Response&, StopCheck)
                  const) {
  return [&room, method](const Message& request, Message& response,
                         StopCheck stop) {
    return (room.*method)(static_cast<const Request&>(request),
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
  return {{"BatchPlan",
           [this](const Message& request, Message& response, StopCheck stop) {
             return BatchPlan(
                 planner_, static_cast<const v1::BatchPlanRequest&>(request),
                 static_cast<v1::BatchPlanResponse&>(response), stop);
           }},
          {"DescribeModel", AnswerOf(planner_, &Planner::DescribeModel)},
          {"FindDevices", AnswerOf(placement_, &PlacementQueries::FindDevices)},
          {"GetBounds", AnswerOf(placement_, &PlacementQueries::GetBounds)},
          {"ListCatalogue",
           [this](const Message& /*request*/, Message& response,
                  StopCheck /*stop*/) {
             return placement_.ListCatalogue(
                 static_cast<v1::ListCatalogueResponse&>(response));
           }},
          {"ListDevices",
           [this](const Message& /*request*/, Message& response,
                  StopCheck /*stop*/) {
             return ledger_.ListDevices(
                 static_cast<v1::ListDevicesResponse&>(response));
           }},
          {"Plan", AnswerOf(planner_, &Planner::Plan)},
          {"PlaceModels", AnswerOf(placement_, &PlacementQueries::PlaceModels)},
          {"PlanSet", AnswerOf(planner_, &Planner::PlanSet)},
          {"PlanSplit", AnswerOf(planner_, &Planner::PlanSplit)}};
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
