// Tells the work of one call that it should stop, and why.
#ifndef PLIMSOLL_SERVICES_SERVER_CALL_STOP_H_
#define PLIMSOLL_SERVICES_SERVER_CALL_STOP_H_

#include <atomic>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace plimsoll::services {

// Thread-safe. A call and its work share it, because either may end first.
class CallStop {
 public:
  // `deadline` is a time of the system's clock.
  explicit CallStop(absl::Time deadline = absl::InfiniteFuture())
      : deadline_(deadline) {}

  // Says that the client is gone.
  void Cancel() { is_cancelled_.store(true, std::memory_order_relaxed); }
  // Says that the process ends and does not wait.
  void Abort() { is_aborted_.store(true, std::memory_order_relaxed); }

  // A StopCheck (base/stop_check.h). Returns OK, or the first of these that is
  // true: kDeadlineExceeded, kCancelled (gRPC also cancels at the deadline),
  // kUnavailable.
  absl::Status Check() const;

 private:
  const absl::Time deadline_;
  std::atomic<bool> is_cancelled_ = false;
  std::atomic<bool> is_aborted_ = false;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_CALL_STOP_H_
