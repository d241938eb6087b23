#include "services/host/clock.h"

#include <ctime>

namespace plimsoll::services {

absl::Time BootTime() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::TimeFromTimespec(now);
}

}  // namespace plimsoll::services
