// A planner's ledger starts with what the journal and the marks of earlier
// planners say of leases that may still be held.
#ifndef PLIMSOLL_SERVICES_PLANNER_OPEN_LEDGER_H_
#define PLIMSOLL_SERVICES_PLANNER_OPEN_LEDGER_H_

#include "absl/status/statusor.h"
#include "services/planner/ledger.h"
#include "services/planner/planner_flags.h"

namespace plimsoll::services {

// Opens the journal, if there is one, and collects what planner::StartOf needs
// to know. Logs why --first does not count, where it does not.
// Errors: kFailedPrecondition, as Journal::Open.
absl::StatusOr<LedgerOptions> OpenLedger(const PlannerOptions& options);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_OPEN_LEDGER_H_
