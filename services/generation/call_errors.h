// The reasons of an engine's errors, as callers are told them.
#ifndef PLIMSOLL_SERVICES_GENERATION_CALL_ERRORS_H_
#define PLIMSOLL_SERVICES_GENERATION_CALL_ERRORS_H_

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace plimsoll::services {

// After this time a slot may be free again. It is a guess.
inline constexpr absl::Duration kQueueRetry = absl::Seconds(1);

// Adds details to the error of a session's call.
absl::Status SessionStatus(absl::Status status);

// Adds details to the error that ended a sequence, unless it has some.
absl::Status EndStatus(absl::Status status);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_CALL_ERRORS_H_
