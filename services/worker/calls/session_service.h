// SessionService on the wire: sessions are an engine's, of the caller's tenant.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_SESSION_SERVICE_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_SESSION_SERVICE_H_

#include <memory>

#include "absl/time/time.h"
#include "services/server/call_gate.h"
#include "services/server/server.h"
#include "services/server/work_pool.h"
#include "services/worker/models/model_registry.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace plimsoll::services {

// The arguments must outlive the service. Whatever costs more than a look at
// small tables runs on the pool. A call whose client does not read is cancelled
// after `reader_timeout`.
std::unique_ptr<grpc::Service> NewSessionService(
    ModelRegistry& registry, CallGate& gate, WorkPool& pool,
    absl::Duration reader_timeout = kReaderTimeout);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_SESSION_SERVICE_H_
