// An operation of a device that hangs when a test says so.
#ifndef PLIMSOLL_TESTS_WORKER_ENGINE_HANGING_OPERATION_H_
#define PLIMSOLL_TESTS_WORKER_ENGINE_HANGING_OPERATION_H_

#include <atomic>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"

namespace plimsoll::testing {

// Hangs once. Thread-safe.
class HangingOperation {
 public:
  // Called by the device, before each operation (BackendHooks::before).
  absl::Status Pass() {
    if (!hangs_.exchange(false)) return absl::OkStatus();
    is_hanging_.Notify();
    goes_on_.WaitForNotification();
    return absl::OkStatus();
  }
  // The next operation hangs.
  void Hang() { hangs_ = true; }
  void AwaitHang() { is_hanging_.WaitForNotification(); }
  void GoOn() { goes_on_.Notify(); }

 private:
  std::atomic<bool> hangs_ = false;
  absl::Notification is_hanging_;
  absl::Notification goes_on_;
};

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_ENGINE_HANGING_OPERATION_H_
