#include "services/host/lock_checks.h"

#include "absl/synchronization/mutex.h"

namespace plimsoll::services {

void LeaveOutLockChecks() {
#ifdef NDEBUG
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
}

}  // namespace plimsoll::services
