// The rule by which a planner starts: how long it grants nothing, and which
// epoch its first grant has. The services collect the evidence.
#ifndef PLIMSOLL_PLANNER_LEASE_LEASE_START_H_
#define PLIMSOLL_PLANNER_LEASE_LEASE_START_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "planner/lease/lease.h"

namespace plimsoll::planner {

enum class JournalFound {
  kNone,      // the planner keeps none
  kNew,       // there was no file, and none beside it
  kWhole,     // every lease that may be held is in it
  kPartial,   // an earlier planner ended before its journal was whole
  kBad,       // a file was not sound, now or at an earlier start
  kUnusable,  // a file cannot be opened, read or written
};

struct StartEvidence {
  JournalFound journal = JournalFound::kNone;
  // Somebody says that no earlier planner granted anything (--first).
  bool is_said_first = false;
  // A mark beside the journal, or the host's, says that a planner ran before.
  bool has_mark = false;
  int64_t wall_millis = 0;  // the clock counts them since 1970
};

struct PlannerStart {
  // No epoch above it comes from a clock, even a wrong one.
  static constexpr int64_t kMaxFirstEpoch = int64_t{1} << 52;

  int64_t first_epoch = 1;
  absl::Duration recovery;  // nothing is granted for so long
  std::string reason;       // it is one sentence, for people
};

// Grants are possible at once only if the planner must know every lease that
// may be held:
// - the journal is whole;
// - or somebody says that nothing was granted, and nothing says otherwise.
// A start of the host is no evidence: the journal may have come from a host
// that runs on, and holders may run on several.
PlannerStart StartOf(const StartEvidence& evidence, const LeaseTimes& times);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LEASE_LEASE_START_H_
