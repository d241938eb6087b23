// Says once that something has happened.
#ifndef PLIMSOLL_BASE_SYNC_STEADY_NOTIFICATION_H_
#define PLIMSOLL_BASE_SYNC_STEADY_NOTIFICATION_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/sync/steady_mutex.h"

namespace plimsoll {

// It is used like absl::Notification where a thread waits for a time
// (SteadyMutex says why). A thread that has waited for it may destroy it.
class SteadyNotification {
 public:
  void Notify() ABSL_LOCKS_EXCLUDED(mu_) {
    SteadyMutexLock lock(&mu_);
    has_happened_ = true;
  }

  // Waits for no longer than `time`. Returns whether it has happened.
  bool WaitFor(absl::Duration time) ABSL_LOCKS_EXCLUDED(mu_) {
    SteadyMutexLock lock(&mu_);
    return mu_.AwaitFor(absl::Condition(&has_happened_), time);
  }

 private:
  SteadyMutex mu_;
  bool has_happened_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace plimsoll

#endif  // PLIMSOLL_BASE_SYNC_STEADY_NOTIFICATION_H_
