// Runs the gateway's parts, from the start of the process to its end.
#ifndef PLIMSOLL_SERVICES_GATEWAY_GATEWAY_PROCESS_H_
#define PLIMSOLL_SERVICES_GATEWAY_GATEWAY_PROCESS_H_

#include "absl/status/status.h"
#include "services/gateway/gateway_flags.h"

namespace plimsoll::services {

// Serves until a signal comes. Requires that HoldSignals was called. Errors:
// those of CheckListen, TokenFile::Open and Front::Start; kResourceExhausted if
// the system does not give the threads that it needs. Throws std::system_error
// as Background does.
absl::Status RunGateway(const GatewayFlags& flags);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GATEWAY_GATEWAY_PROCESS_H_
