// Answers the planner's queries in this process, for the models and devices of
// the process.
#ifndef PLIMSOLL_SERVICES_HTTP_LOCAL_LOCAL_PLANNER_H_
#define PLIMSOLL_SERVICES_HTTP_LOCAL_LOCAL_PLANNER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/stop_check.h"
#include "planner/fleet/device_catalogue.h"
#include "services/http/planner_queries.h"
#include "services/planner/ledger.h"
#include "services/planner/placement_queries.h"
#include "services/planner/planner.h"
#include "services/server/flags.h"
#include "services/worker/models/options.h"

namespace plimsoll::services {

// It grants no leases: its ledger only knows the devices.
class LocalPlanner final : public PlannerQueries {
 public:
  // The threads of the ledger: the feed of devices, and the watch of processes.
  static constexpr int kThreads = 2;

  // Requests may name `models` and `devices`, and the devices of the installed
  // catalogue. Errors: those of ReadPlannerModels and LoadCatalogue.
  static absl::StatusOr<std::unique_ptr<LocalPlanner>> Create(
      const std::vector<ModelFlag>& models, std::vector<WorkerDevice> devices);

  // Replaces the models. Errors: those of ReadPlannerModels.
  absl::Status SetModels(const std::vector<ModelFlag>& models);

  absl::Status Ask(absl::string_view method,
                   const google::protobuf::Message& request,
                   google::protobuf::Message& response,
                   const TokenCaller& caller) override;

 private:
  using Answers =
      std::map<std::string,
               std::function<absl::Status(
                   const google::protobuf::Message& request,
                   google::protobuf::Message& response, StopCheck stop)>>;

  LocalPlanner(std::vector<WorkerDevice> devices,
               planner::DeviceCatalogue catalogue);

  Answers MakeAnswers();
  // Reads the free bytes of each device.
  absl::Status ReadDevices();

  const std::vector<WorkerDevice> devices_;
  Ledger ledger_;
  Planner planner_;
  PlacementQueries placement_;
  const Answers answers_;  // by method
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_LOCAL_LOCAL_PLANNER_H_
