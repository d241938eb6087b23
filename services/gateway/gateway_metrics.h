// The metrics of a gateway, as Prometheus reads them.
#ifndef PLIMSOLL_SERVICES_GATEWAY_GATEWAY_METRICS_H_
#define PLIMSOLL_SERVICES_GATEWAY_GATEWAY_METRICS_H_

#include <string>

#include "services/gateway/gateway_counts.h"
#include "services/gateway/worker_book.h"
#include "services/server/access/auth_failure.h"

namespace plimsoll::services {

// Returns the reply to a scrape. There are at most WorkerBook::kMaxWorkers
// workers, which limits its series. `failures` are those of the gate.
std::string GatewayMetricsText(const WorkerBook& book,
                               const GatewayCounts& counts, bool is_ready,
                               const AuthFailureCounts& failures = {});

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GATEWAY_GATEWAY_METRICS_H_
