// A worker's services on the wire.
#ifndef PLIMSOLL_SERVICES_WORKER_SERVICES_H_
#define PLIMSOLL_SERVICES_WORKER_SERVICES_H_

#include <memory>

#include "services/common/call_gate.h"
#include "services/worker/model_registry.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace plimsoll::services {

// Each needs `registry` and `gate` to outlive it.
std::unique_ptr<grpc::Service> NewGenerationService(ModelRegistry& registry,
                                                    CallGate& gate);
std::unique_ptr<grpc::Service> NewTokenizerService(ModelRegistry& registry,
                                                   CallGate& gate);
std::unique_ptr<grpc::Service> NewModelService(ModelRegistry& registry,
                                               CallGate& gate);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_SERVICES_H_
