// The flags of plimsoll-planner.
#ifndef PLIMSOLL_SERVICES_PLANNER_PLANNER_FLAGS_H_
#define PLIMSOLL_SERVICES_PLANNER_PLANNER_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/lease/lease.h"
#include "services/planner/device_bytes.h"
#include "services/server/flags.h"
#include "services/server/server.h"
#include "services/settings/settings.h"
#include "services/tracing/tracer.h"

namespace plimsoll::services {

struct PlannerOptions {
  std::vector<ModelFlag> models;
  std::string catalogue;    // a file of devices; empty = none
  std::string journal;      // a file; empty = none
  bool is_first = false;    // --first: no earlier lease may be held
  bool is_standby = false;  // --standby: waits for the journal
  planner::LeaseTimes times = {};
  bool requires_secrets = false;  // every reservation needs a secret
  DeviceBytes headrooms = {};     // bytes that are never granted
  DeviceBytes sizes = {};         // upper limits of device sizes
};

// All settings of a planner.
struct PlannerFlags {
  ServerOptions server = {};
  PlannerOptions options = {};
  TracingOptions tracing = {};
  Settings settings = {.section = "planner"};
};

// Parses the flags, and reads the settings of the environment and of a file.
// Returns the exit code if the process must end now.
std::optional<int> ParsePlannerFlags(int argc, char** argv,
                                     PlannerFlags& flags);

// Does the same in a running process, to find changed settings.
// Errors: kInvalidArgument with the reason.
absl::StatusOr<PlannerFlags> ReadPlannerFlagsAgain(int argc, char** argv);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_PLANNER_FLAGS_H_
