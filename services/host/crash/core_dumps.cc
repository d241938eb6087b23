#include "services/host/crash/core_dumps.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/status_macros.h"

namespace plimsoll::services {

// Not PR_SET_DUMPABLE: it would give the files of /proc/PID to root, so that
// the planner could not look after a worker of the same user any more.
void ForbidCoreDumps() {
  rlimit limit = {};
  PLIMSOLL_CHECK(getrlimit(RLIMIT_CORE, &limit) == 0, "any limit can be read");
  const rlim_t least = std::min<rlim_t>(limit.rlim_max, kNoCoreBytes);
  limit = {.rlim_cur = least, .rlim_max = least};
  PLIMSOLL_CHECK(setrlimit(RLIMIT_CORE, &limit) == 0,
                 "anybody may lower a limit");
}

}  // namespace plimsoll::services
