#include "services/http/local/local_planner.h"

#include <google/protobuf/message.h>

#include <map>
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

// The rooms that answer queries.
struct Rooms {
  Ledger& ledger;
  Planner& planner;
  PlacementQueries& placement;
};

using QueryAnswer = absl::Status (*)(const Rooms& rooms, const Message& request,
                                     Message& response, StopCheck stop);

// Gives `kAnswer` the messages that its query has.
template <typename Request, typename Response,
          absl::Status (*kAnswer)(const Rooms&, const Request&, Response&,
                                  StopCheck)>
absl::Status AnswerWith(const Rooms& rooms, const Message& request,
                        Message& response, StopCheck stop) {
  return kAnswer(rooms, static_cast<const Request&>(request),
                 static_cast<Response&>(response), stop);
}

absl::Status Describe(const Rooms& rooms,
                      const v1::DescribeModelRequest& request,
                      v1::DescribeModelResponse& response, StopCheck /*stop*/) {
  return rooms.planner.DescribeModel(request, response);
}
absl::Status PlanOne(const Rooms& rooms, const v1::PlanRequest& request,
                     v1::PlanResponse& response, StopCheck /*stop*/) {
  return rooms.planner.Plan(request, response);
}
absl::Status PlanSet(const Rooms& rooms, const v1::PlanSetRequest& request,
                     v1::PlanSetResponse& response, StopCheck stop) {
  return rooms.planner.PlanSet(request, response, stop);
}
absl::Status PlanSplit(const Rooms& rooms, const v1::PlanSplitRequest& request,
                       v1::PlanSplitResponse& response, StopCheck stop) {
  return rooms.planner.PlanSplit(request, response, stop);
}
absl::Status PlanBatch(const Rooms& rooms, const v1::BatchPlanRequest& request,
                       v1::BatchPlanResponse& response, StopCheck stop) {
  return BatchPlan(rooms.planner, request, response, stop);
}
absl::Status Place(const Rooms& rooms, const v1::PlaceModelsRequest& request,
                   v1::PlaceModelsResponse& response, StopCheck stop) {
  return rooms.placement.PlaceModels(request, response, stop);
}
absl::Status Find(const Rooms& rooms, const v1::FindDevicesRequest& request,
                  v1::FindDevicesResponse& response, StopCheck stop) {
  return rooms.placement.FindDevices(request, response, stop);
}
absl::Status Bounds(const Rooms& rooms, const v1::GetBoundsRequest& request,
                    v1::GetBoundsResponse& response, StopCheck /*stop*/) {
  return rooms.placement.GetBounds(request, response);
}
absl::Status Catalogue(const Rooms& rooms,
                       const v1::ListCatalogueRequest& /*request*/,
                       v1::ListCatalogueResponse& response,
                       StopCheck /*stop*/) {
  return rooms.placement.ListCatalogue(response);
}
absl::Status Devices(const Rooms& rooms,
                     const v1::ListDevicesRequest& /*request*/,
                     v1::ListDevicesResponse& response, StopCheck /*stop*/) {
  return rooms.ledger.ListDevices(response);
}

QueryAnswer FindAnswer(absl::string_view method) {
  static const std::map<absl::string_view, QueryAnswer> answers = {
      {"BatchPlan",
       AnswerWith<v1::BatchPlanRequest, v1::BatchPlanResponse, PlanBatch>},
      {"DescribeModel", AnswerWith<v1::DescribeModelRequest,
                                   v1::DescribeModelResponse, Describe>},
      {"FindDevices",
       AnswerWith<v1::FindDevicesRequest, v1::FindDevicesResponse, Find>},
      {"GetBounds",
       AnswerWith<v1::GetBoundsRequest, v1::GetBoundsResponse, Bounds>},
      {"ListCatalogue", AnswerWith<v1::ListCatalogueRequest,
                                   v1::ListCatalogueResponse, Catalogue>},
      {"ListDevices",
       AnswerWith<v1::ListDevicesRequest, v1::ListDevicesResponse, Devices>},
      {"Plan", AnswerWith<v1::PlanRequest, v1::PlanResponse, PlanOne>},
      {"PlaceModels",
       AnswerWith<v1::PlaceModelsRequest, v1::PlaceModelsResponse, Place>},
      {"PlanSet", AnswerWith<v1::PlanSetRequest, v1::PlanSetResponse, PlanSet>},
      {"PlanSplit",
       AnswerWith<v1::PlanSplitRequest, v1::PlanSplitResponse, PlanSplit>}};
  const auto found = answers.find(method);
  return found == answers.end() ? nullptr : found->second;
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
                 std::move(catalogue)) {}

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
  const QueryAnswer answer = FindAnswer(method);
  if (answer == nullptr) {
    return absl::UnimplementedError("this server does not answer the query");
  }
  RETURN_IF_ERROR(ReadDevices());
  return answer({ledger_, planner_, placement_}, request, response,
                caller.stop);
}

}  // namespace plimsoll::services
