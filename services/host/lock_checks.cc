#include "services/host/lock_checks.h"

#include "absl/synchronization/mutex.h"

namespace plimsoll::services {

void DisableLockChecks() {
#ifdef NDEBUG
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
}

}  // namespace plimsoll::services
