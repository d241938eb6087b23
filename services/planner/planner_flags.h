// Parses the command line of plimsoll-planner.
#ifndef PLIMSOLL_SERVICES_PLANNER_PLANNER_FLAGS_H_
#define PLIMSOLL_SERVICES_PLANNER_PLANNER_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "planner/lease/lease.h"
#include "services/server/flags.h"
#include "services/server/server.h"

namespace plimsoll::services {

struct PlannerOptions {
  std::vector<ModelFlag> models;
  std::string catalogue;  // a file of devices; empty = none
  std::string journal;    // a file; empty = none
  bool is_first = false;  // --first: no earlier lease may be held
  planner::LeaseTimes times = {};
};

// Parses the flags. Returns the exit code if the process is to end now.
std::optional<int> ParsePlannerFlags(int argc, char** argv,
                                     ServerOptions& server,
                                     PlannerOptions& options);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_PLANNER_FLAGS_H_
