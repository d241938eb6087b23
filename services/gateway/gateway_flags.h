// The flags of plimsoll-gateway.
#ifndef PLIMSOLL_SERVICES_GATEWAY_GATEWAY_FLAGS_H_
#define PLIMSOLL_SERVICES_GATEWAY_GATEWAY_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "services/gateway/worker_set.h"
#include "services/server/server.h"
#include "services/settings/settings.h"
#include "services/tracing/tracer.h"

namespace plimsoll::services {

// All settings of a gateway.
struct GatewayFlags {
  ServerOptions server = {.listen = "127.0.0.1:8000"};
  std::vector<std::string> allowed_hosts = {};
  std::vector<std::string> allowed_origins = {};
  WorkerSetOptions workers = {};
  std::string planner = {};  // the planner's address; empty: none
  TracingOptions tracing = {};
  Settings settings = {.section = "gateway"};
};

// Parses the flags, and reads the settings of the environment and of a file.
// Returns the exit code if the process must end now.
std::optional<int> ParseGatewayFlags(int argc, char** argv,
                                     GatewayFlags& flags);

// Checks the flags for workers, and removes "dns:///" from the name.
// Errors: kInvalidArgument.
absl::Status CheckWorkers(WorkerSetOptions& options);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GATEWAY_GATEWAY_FLAGS_H_
