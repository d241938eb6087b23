// Supplies models, devices and the catalogue for the planner's queries about
// devices and fleets, in this process or in a request to a planner.
#ifndef PLIMSOLL_SERVICES_CLI_BACKENDS_LOCAL_QUERIES_H_
#define PLIMSOLL_SERVICES_CLI_BACKENDS_LOCAL_QUERIES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "plimsoll/v1/planner.pb.h"
#include "services/planner/placement_queries.h"

namespace plimsoll::cli {

// This machine's CPU, as a planner would list it.
v1::ListDevicesResponse LocalDevices();

// Queries that this process answers itself. Models come as headers, the only
// registered device is this machine's CPU, and the catalogue is the installed
// one with the devices of the user's file `catalogue_path` (may be empty).
// Errors: those of LoadCatalogue.
absl::StatusOr<services::PlacementQueries> LocalQueries(
    const std::string& catalogue_path);

// A model of a request.
struct RequestedModel {
  v1::ModelSource source;
  int64_t n_ctx_train;  // 2^32 - 1 if only the planner knows it
};

// The place where a request for plans is answered.
enum class PlanWhere { kHere, kPlanner };

// Returns the header of the file `model`. If there is no such file and a
// planner answers, returns a model of the planner's configuration.
// Errors: those of OpenPlanSource.
absl::StatusOr<RequestedModel> RequestModel(const std::string& model,
                                            PlanWhere where);

// The bytes of a device that is given by its size, such as "24GiB". Absent if
// `name` is not a size with a unit.
std::optional<int64_t> SizeOfDevice(absl::string_view name);

// Fills `device` with the catalogue's device `name`, or with a device of that
// size.
void RequestDevice(const std::string& name, v1::DeviceToFill& device);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_LOCAL_QUERIES_H_
