// Tells the work of one call that it should stop, and why.
#ifndef PLIMSOLL_SERVICES_SERVER_CALL_STOP_H_
#define PLIMSOLL_SERVICES_SERVER_CALL_STOP_H_

#include <atomic>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/host/clock.h"

namespace plimsoll::services {

// Thread-safe. A call and its work share it, because either may end first.
class CallStop {
 public:
  // `time_left` counts from now, by the boot clock: a time of day that jumps
  // ends no call.
  explicit CallStop(absl::Duration time_left = absl::InfiniteDuration())
      : deadline_(BootTime() + time_left) {}

  // Says that the client is gone.
  void Cancel() { is_cancelled_.store(true, std::memory_order_relaxed); }
  // Says that the process ends and does not wait.
  void Abort() { is_aborted_.store(true, std::memory_order_relaxed); }

  // A StopCheck (base/stop_check.h). Returns OK, or the first of these that is
  // true: kDeadlineExceeded, kCancelled (gRPC also cancels at the deadline),
  // kUnavailable.
  absl::Status Check() const;

 private:
  const absl::Time deadline_;  // by BootTime()
  std::atomic<bool> is_cancelled_ = false;
  std::atomic<bool> is_aborted_ = false;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_CALL_STOP_H_
