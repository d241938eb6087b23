// The clocks that services use.
#ifndef PLIMSOLL_SERVICES_HOST_CLOCK_H_
#define PLIMSOLL_SERVICES_HOST_CLOCK_H_

#include "absl/time/time.h"

namespace plimsoll::services {

// Time since this machine started, with suspension (CLOCK_BOOTTIME), as a time
// after the epoch. This clock never jumps, so leases and deadlines use it.
absl::Time BootTime();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_CLOCK_H_
