// PlannerService on the wire. Each call goes to the Planner or to the Ledger.
#ifndef PLIMSOLL_SERVICES_PLANNER_PLANNER_SERVICE_H_
#define PLIMSOLL_SERVICES_PLANNER_PLANNER_SERVICE_H_

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "planner/fleet/device_catalogue.h"
#include "services/planner/ledger.h"
#include "services/planner/planner.h"
#include "services/server/call_gate.h"
#include "services/server/server.h"
#include "services/server/work_pool.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace plimsoll::services {

// The requests and replies of all its calls together hold at most this much.
inline constexpr int64_t kPlannerMessageBytes = 64 << 20;

// Makes the service. `planner`, `ledger`, `gate` and `pool` must outlive it,
// and the pool must outlive its server's calls. `catalogue` has the devices
// that are known without being registered. A call whose client does not read is
// cancelled after `reader_timeout`.
std::unique_ptr<grpc::Service> NewPlannerService(
    Planner& planner, Ledger& ledger, CallGate& gate, WorkPool& pool,
    planner::DeviceCatalogue catalogue = planner::DeviceCatalogue(),
    absl::Duration reader_timeout = kReaderTimeout);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_PLANNER_SERVICE_H_
