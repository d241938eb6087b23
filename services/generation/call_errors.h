// Converts an engine's errors to errors with reasons for callers.
#ifndef PLIMSOLL_SERVICES_GENERATION_CALL_ERRORS_H_
#define PLIMSOLL_SERVICES_GENERATION_CALL_ERRORS_H_

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace plimsoll::services {

// After this time a slot may be free again. It is a guess.
inline constexpr absl::Duration kQueueRetry = absl::Seconds(1);

// Adds details to the error of a session's call.
absl::Status SessionStatus(absl::Status status);

// Adds details to the error that ended a sequence, unless it has details
// already.
absl::Status EndStatus(absl::Status status);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_CALL_ERRORS_H_
