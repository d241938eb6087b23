// Why the work of one call should stop.
#ifndef PLIMSOLL_SERVICES_SERVER_CALL_STOP_H_
#define PLIMSOLL_SERVICES_SERVER_CALL_STOP_H_

#include <atomic>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace plimsoll::services {

// Thread-safe. A call and its work share it, because either may end first.
class CallStop {
 public:
  // `deadline` is by the system's clock.
  explicit CallStop(absl::Time deadline = absl::InfiniteFuture())
      : deadline_(deadline) {}

  // The client is gone.
  void Cancel() { is_cancelled_.store(true, std::memory_order_relaxed); }
  // The process ends and waits no longer.
  void Abort() { is_aborted_.store(true, std::memory_order_relaxed); }

  // OK, or the first that is true: kDeadlineExceeded, kCancelled (gRPC cancels
  // at the deadline too), kUnavailable. This is a base/stop_check.h.
  absl::Status Check() const;

 private:
  const absl::Time deadline_;
  std::atomic<bool> is_cancelled_ = false;
  std::atomic<bool> is_aborted_ = false;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_CALL_STOP_H_
