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

// The parts that the service uses. The referenced objects must outlive the
// service, and the pool must outlive its server's calls.
struct PlannerServiceNeeds {
  Planner& planner;
  Ledger& ledger;
  CallGate& gate;
  WorkPool& pool;
  // Devices that are known without registration.
  planner::DeviceCatalogue catalogue = planner::DeviceCatalogue();
  // A call whose client reads nothing for this long is cancelled.
  absl::Duration reader_timeout = kReaderTimeout;
};

// Makes the service.
std::unique_ptr<grpc::Service> NewPlannerService(PlannerServiceNeeds needs);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_PLANNER_SERVICE_H_
