#include "planner/lease/lease_start.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace plimsoll::planner {
namespace {

// The evidence that an earlier planner may have granted something, or null.
const char* SignOfEarlierPlanner(const StartEvidence& evidence) {
  switch (evidence.journal) {
    case JournalFound::kBad:
      return "a journal was not sound";
    case JournalFound::kUnusable:
      return "the journal cannot be used";
    case JournalFound::kPartial:
      return "an earlier planner began the journal and did not complete it";
    case JournalFound::kNone:
    case JournalFound::kNew:
    case JournalFound::kWhole:
      break;
  }
  return evidence.has_mark ? "a planner has run here before" : nullptr;
}

}  // namespace

PlannerStart StartOf(const StartEvidence& evidence, const LeaseTimes& times) {
  if (evidence.journal == JournalFound::kWhole) {
    return {.first_epoch = 1,
            .recovery = absl::ZeroDuration(),
            .reason = "the journal has all leases"};
  }
  // The clock grows from start to start, and faster than grants can.
  PlannerStart start = {
      .first_epoch = std::clamp<int64_t>(evidence.wall_millis, 1,
                                         PlannerStart::kMaxFirstEpoch),
      .recovery = absl::ZeroDuration(),
      .reason = ""};
  const char* const sign = SignOfEarlierPlanner(evidence);
  if (evidence.is_said_first && sign == nullptr) {
    start.reason = "it is said to be the first planner here";
    return start;
  }
  start.recovery = times.recovery;
  start.reason =
      sign == nullptr ? "an earlier planner may have granted memory" : sign;
  if (evidence.is_said_first) {
    absl::StrAppend(&start.reason, ", so this planner is not the first here");
  }
  return start;
}

}  // namespace plimsoll::planner
