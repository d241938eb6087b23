#include "services/planner/open_ledger.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "planner/lease/lease_start.h"
#include "services/host/clock.h"
#include "services/host/log.h"
#include "services/planner/journal.h"
#include "services/planner/use_mark.h"

namespace plimsoll::services {
namespace {

// True if an earlier planner of this host left its mark, with or without a
// journal. This planner makes its own mark here, before it grants anything. If
// it cannot make one, later planners could not know of it; so it then acts as
// if there were a mark.
bool HasMarkOfHost() {
  const std::string mark = HostMarkPath();
  if (mark.empty()) {
    Log(LogLevel::kWarning,
        "$XDG_STATE_HOME and $HOME name no folder for the mark of a planner");
    return true;
  }
  const bool was_there = Exists(mark);
  const absl::Status status = WriteMark(mark);
  if (!status.ok()) {
    Log(LogLevel::kWarning, "no mark is left",
        {{"error", std::string(status.message())}});
  }
  return was_there || !status.ok();
}

// Opens the journal, once no other process has it if the planner is on standby.
absl::StatusOr<std::unique_ptr<Journal>> OpenJournal(
    const PlannerOptions& options,
    const std::function<bool(absl::Duration)>& ends_within) {
  for (bool is_told = false;; is_told = true) {
    auto journal = Journal::Open(options.journal, BootTime);
    if (!absl::IsAborted(journal.status())) return journal;
    if (!options.is_standby) {
      return absl::FailedPreconditionError(journal.status().message());
    }
    if (!is_told) {
      Log(LogLevel::kInfo, "on standby: another planner has the journal",
          {{"file", options.journal}});
    }
    if (ends_within(kStandbyPoll)) {
      return absl::CancelledError("ended on standby");
    }
  }
}

}  // namespace

absl::StatusOr<LedgerOptions> OpenLedger(
    const PlannerOptions& options,
    const std::function<bool(absl::Duration)>& ends_within) {
  LedgerOptions ledger;
  ledger.clock = BootTime;
  ledger.times = options.times;
  ledger.requires_secrets = options.requires_secrets;
  ledger.headrooms = options.headrooms;
  ledger.sizes = options.sizes;
  planner::StartEvidence evidence{
      .is_said_first = options.is_first,
      .wall_millis = absl::ToUnixMillis(absl::Now())};
  // A new boot of this host is not used as evidence: the journal may have been
  // moved here from a host that still runs.
  if (options.journal.empty()) {
    Log(LogLevel::kWarning,
        "no --journal: a restart forgets the leases, and asks for them again");
  } else {
    ASSIGN_OR_RETURN(ledger.journal, OpenJournal(options, ends_within));
    evidence.journal = ledger.journal->history().found;
    evidence.has_mark = ledger.journal->history().has_mark;
  }
  // Devices belong to the host: a journal in another place tells nothing about
  // them.
  if (HasMarkOfHost()) evidence.has_mark = true;
  const planner::PlannerStart start = planner::StartOf(evidence, options.times);
  ledger.first_epoch = start.first_epoch;
  ledger.is_first = start.recovery == absl::ZeroDuration();
  if (options.is_first && !ledger.is_first) {
    Log(LogLevel::kWarning, "--first DOES NOT COUNT",
        {{"reason", start.reason}});
  }
  return ledger;
}

}  // namespace plimsoll::services
