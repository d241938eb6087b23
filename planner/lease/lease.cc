#include "planner/lease/lease.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::planner {
namespace {

absl::Status CheckTime(const char* name, absl::Duration time,
                       absl::Duration min) {
  if (time >= min && time <= LeaseTimes::kMaxTime) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", absl::FormatDuration(time), ", not ",
                   absl::FormatDuration(min), " to ",
                   absl::FormatDuration(LeaseTimes::kMaxTime)));
}

}  // namespace

absl::Status CheckLeaseTimes(const LeaseTimes& times) {
  RETURN_IF_ERROR(
      CheckTime("the time to live", times.ttl, LeaseTimes::kMinTtl));
  RETURN_IF_ERROR(CheckTime("the grace", times.grace, LeaseTimes::kMinGrace));
  return CheckTime("the recovery time", times.recovery, times.ttl);
}

const char* LeaseStateName(LeaseState state) {
  switch (state) {
    case LeaseState::kReserved:
      return "RESERVED";
    case LeaseState::kConfirmed:
      return "CONFIRMED";
    case LeaseState::kSuspect:
      return "SUSPECT";
    case LeaseState::kReleased:
      break;
  }
  return "RELEASED";
}

}  // namespace plimsoll::planner
