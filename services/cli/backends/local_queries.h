// What the planner's queries about devices and fleets need in this process, or
// in a request to a planner: models, devices and the catalogue.
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

// This machine's CPU as a planner would list it.
v1::ListDevicesResponse LocalDevices();

// Queries that are answered in this process: models come as headers, the one
// registered device is this machine's CPU, and the catalogue is the installed
// one with the user's own file `catalogue_path` over it, unless that is empty.
// Errors: those of LoadCatalogue.
absl::StatusOr<services::PlacementQueries> LocalQueries(
    const std::string& catalogue_path);

// A model as a request names it.
struct RequestedModel {
  v1::ModelSource source;
  int64_t n_ctx_train;  // 2^32 - 1 for a planner's model: it is not known here
};

// The header of the file `model`; where `is_remote` and there is no such file,
// a model that the planner was configured with.
// Errors: those of OpenPlanSource.
absl::StatusOr<RequestedModel> RequestModel(const std::string& model,
                                            bool is_remote);

// The bytes of a device that is given by its size, such as "24GiB"; nothing if
// `name` is not a size with a unit.
std::optional<int64_t> SizeOfDevice(absl::string_view name);

// Names the catalogue's device `name` in `device`, or makes it a device of that
// size.
void RequestDevice(const std::string& name, v1::DeviceToFill& device);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_LOCAL_QUERIES_H_
