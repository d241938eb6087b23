// AdminService on the wire. Its calls are not counted by the gate, which it
// closes, and are answered while the worker drains.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_ADMIN_SERVICE_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_ADMIN_SERVICE_H_

#include <memory>

#include "absl/time/time.h"
#include "services/server/call_gate.h"
#include "services/server/server.h"
#include "services/worker/models/model_registry.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace plimsoll::services {

// The arguments must outlive the service. A call whose client does not read is
// cancelled after `reader_timeout`.
std::unique_ptr<grpc::Service> NewAdminService(
    ModelRegistry& registry, CallGate& gate,
    absl::Duration reader_timeout = kReaderTimeout);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_ADMIN_SERVICE_H_
