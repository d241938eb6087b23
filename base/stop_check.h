// How long work learns that nobody waits for it any more.
#ifndef PLIMSOLL_BASE_STOP_CHECK_H_
#define PLIMSOLL_BASE_STOP_CHECK_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace plimsoll {

// OK: go on. Else the error to return at once: kCancelled if the caller left,
// kDeadlineExceeded if its deadline has passed, kUnavailable if the process
// ends. Costs less than 0.1 us, so work asks it once for each element that
// costs more. It is only valid during the call that it was passed to.
using StopCheck = absl::FunctionRef<absl::Status()>;

// For callers that wait until the end.
inline absl::Status NeverStop() { return absl::OkStatus(); }

}  // namespace plimsoll

#endif  // PLIMSOLL_BASE_STOP_CHECK_H_
