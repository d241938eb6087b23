// The clocks that services read and pass down.
#ifndef PLIMSOLL_SERVICES_HOST_CLOCK_H_
#define PLIMSOLL_SERVICES_HOST_CLOCK_H_

#include "absl/time/time.h"

namespace plimsoll::services {

// Time since this machine started, suspension included (CLOCK_BOOTTIME), as a
// time from the epoch on: it never jumps, so leases and deadlines count on it.
absl::Time BootTime();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_CLOCK_H_
