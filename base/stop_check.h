// How long work learns that nobody waits for its result any more.
#ifndef PLIMSOLL_BASE_STOP_CHECK_H_
#define PLIMSOLL_BASE_STOP_CHECK_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace plimsoll {

// Returns OK if the work should go on, else the error to return at once:
// kCancelled if the caller left, kDeadlineExceeded if its deadline has passed,
// kUnavailable if the process ends. A check costs less than 0.1 us, so work
// makes one for each element that costs more. It is only valid during the call
// that it was passed to.
using StopCheck = absl::FunctionRef<absl::Status()>;

// A check for callers that wait until the end.
inline absl::Status NeverStop() { return absl::OkStatus(); }

}  // namespace plimsoll

#endif  // PLIMSOLL_BASE_STOP_CHECK_H_
