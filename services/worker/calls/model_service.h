// ModelService on the wire: each call goes to the registry.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_MODEL_SERVICE_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_MODEL_SERVICE_H_

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
std::unique_ptr<grpc::Service> NewModelService(
    ModelRegistry& registry, CallGate& gate,
    absl::Duration reader_timeout = kReaderTimeout);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_MODEL_SERVICE_H_
