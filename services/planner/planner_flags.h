// The flags of plimsoll-planner.
#ifndef PLIMSOLL_SERVICES_PLANNER_PLANNER_FLAGS_H_
#define PLIMSOLL_SERVICES_PLANNER_PLANNER_FLAGS_H_

#include <optional>
#include <vector>

#include "services/common/flags.h"
#include "services/common/server.h"

namespace plimsoll::services {

// Parses; the exit code if the process is to end now.
std::optional<int> ParsePlannerFlags(int argc, char** argv,
                                     ServerOptions& server,
                                     std::vector<ModelFlag>& models,
                                     std::string& catalogue);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_PLANNER_FLAGS_H_
