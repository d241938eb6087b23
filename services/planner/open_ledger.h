// Makes the options of a planner's ledger from the journal and the marks of
// earlier planners, which tell which leases may still be held.
#ifndef PLIMSOLL_SERVICES_PLANNER_OPEN_LEDGER_H_
#define PLIMSOLL_SERVICES_PLANNER_OPEN_LEDGER_H_

#include <functional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/planner/ledger.h"
#include "services/planner/planner_flags.h"

namespace plimsoll::services {

// The time between two checks of a standby planner whether the journal is free.
inline constexpr absl::Duration kStandbyPoll = absl::Milliseconds(250);

// Opens the journal, if there is one, and collects the arguments of
// planner::StartOf. If --first is not obeyed, the log says why.
//
// With --standby, waits while another process has the journal. `ends_within`
// waits for the given time, and returns true if the process must end.
// Errors: kFailedPrecondition if another process has the journal and --standby
// is not set, or as Journal::Open returns it; kCancelled if the wait was ended.
absl::StatusOr<LedgerOptions> OpenLedger(
    const PlannerOptions& options,
    const std::function<bool(absl::Duration)>& ends_within);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_OPEN_LEDGER_H_
