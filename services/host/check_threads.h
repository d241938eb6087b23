// Whether the system gives as many threads as somebody needs who cannot say so.
#ifndef PLIMSOLL_SERVICES_HOST_CHECK_THREADS_H_
#define PLIMSOLL_SERVICES_HOST_CHECK_THREADS_H_

#include "absl/status/status.h"

namespace plimsoll::services {

// Starts `n` threads, which exist together and do nothing, and ends them. gRPC
// waits for ever for threads that it was refused, so a start asks first.
// Errors: kResourceExhausted, with what to raise, if the system gives fewer.
absl::Status CheckThreads(int n);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_CHECK_THREADS_H_
