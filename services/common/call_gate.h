// Counts the calls that run and refuses new ones once the server drains.
#ifndef PLIMSOLL_SERVICES_COMMON_CALL_GATE_H_
#define PLIMSOLL_SERVICES_COMMON_CALL_GATE_H_

#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace plimsoll::services {

// Thread-safe. Outlives every pass.
class CallGate {
 public:
  // Held by a call while it runs.
  class Pass {
   public:
    Pass() = default;
    explicit Pass(CallGate* gate) : gate_(gate) {}
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&& other) noexcept {
      std::swap(gate_, other.gate_);
      return *this;
    }
    ~Pass() {
      if (gate_ != nullptr) gate_->Leave();
    }

   private:
    CallGate* gate_ = nullptr;
  };

  // Errors: kUnavailable, with a retry delay of 0, once closed.
  absl::StatusOr<Pass> Enter();
  void Close();
  // Waits until no call runs. False if that took longer than `timeout`.
  bool AwaitIdle(absl::Duration timeout);

 private:
  void Leave();

  absl::Mutex mu_;
  int64_t running_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_COMMON_CALL_GATE_H_
