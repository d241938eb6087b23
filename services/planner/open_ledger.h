// Makes the options of a planner's ledger from the journal and the marks of
// earlier planners, which tell which leases may still be held.
#ifndef PLIMSOLL_SERVICES_PLANNER_OPEN_LEDGER_H_
#define PLIMSOLL_SERVICES_PLANNER_OPEN_LEDGER_H_

#include "absl/status/statusor.h"
#include "services/planner/ledger.h"
#include "services/planner/planner_flags.h"

namespace plimsoll::services {

// Opens the journal, if there is one, and collects what planner::StartOf needs
// to know. If --first does not count, logs why.
// Errors: kFailedPrecondition, as Journal::Open returns it.
absl::StatusOr<LedgerOptions> OpenLedger(const PlannerOptions& options);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_OPEN_LEDGER_H_
