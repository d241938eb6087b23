// Checks that the system gives enough threads to code that cannot report it.
#ifndef PLIMSOLL_SERVICES_HOST_CHECK_THREADS_H_
#define PLIMSOLL_SERVICES_HOST_CHECK_THREADS_H_

#include "absl/status/status.h"

namespace plimsoll::services {

// Starts `n` threads that do nothing, all at once, and ends them. gRPC waits
// forever for a thread that the system refused, so the start of a server checks
// first.
// Errors: kResourceExhausted, with the limits to raise, if the system gives
// fewer.
absl::Status CheckThreads(int n);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_CHECK_THREADS_H_
