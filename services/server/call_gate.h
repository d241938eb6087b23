// Counts the running calls, and refuses new ones once the server drains. It
// also has the guard that identifies callers.
#ifndef PLIMSOLL_SERVICES_SERVER_CALL_GATE_H_
#define PLIMSOLL_SERVICES_SERVER_CALL_GATE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/sync/steady_mutex.h"
#include "services/server/access/auth_failure.h"

namespace plimsoll::services {

class CallGuard;

// Thread-safe. It outlives every pass.
class CallGate {
 public:
  // A call holds a pass while it runs.
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
      if (gate_ != nullptr) gate_->Exit();
    }

   private:
    CallGate* gate_ = nullptr;
  };

  // Errors: kUnavailable, with a retry delay of 0, once closed.
  absl::StatusOr<Pass> Enter() ABSL_LOCKS_EXCLUDED(mu_);
  // Closes the gate for good. The listener is called before this returns.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);
  bool is_closed() const ABSL_LOCKS_EXCLUDED(mu_);
  // The number of running calls.
  int64_t running() const ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until no call runs. Returns false if that took longer than `timeout`.
  bool AwaitIdle(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);

  // Every Close() calls `listener`, which may use the gate. Null = no listener.
  void SetCloseListener(std::function<void()> listener)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Calls `told` once, as soon as no call runs, maybe at once. The thread that
  // ends the last call calls `told`, possibly with locks held: `told` must not
  // block and must not use the gate. Returns the id for Forget().
  int64_t NotifyWhenIdle(std::function<void()> told) ABSL_LOCKS_EXCLUDED(mu_);
  // Sets the guard that identifies the callers. Null: this server identifies
  // nobody.
  void SetGuard(std::shared_ptr<CallGuard> guard) ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<CallGuard> guard() const ABSL_LOCKS_EXCLUDED(mu_);
  // Sets the guard for methods that change the server, which may be served at
  // another address.
  void SetGuardOfChanges(std::shared_ptr<CallGuard> guard)
      ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<CallGuard> guard_of_changes() const ABSL_LOCKS_EXCLUDED(mu_);
  // The number of calls that were refused because of their caller; zeros
  // without a guard.
  AuthFailureCounts auth_failures() const ABSL_LOCKS_EXCLUDED(mu_);

  // Drops the function that NotifyWhenIdle() registered under `id`.
  void Forget(int64_t id) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Exit() ABSL_LOCKS_EXCLUDED(mu_);

  mutable SteadyMutex mu_;
  int64_t running_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::function<void()> close_listener_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<CallGuard> guard_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<CallGuard> guard_of_changes_ ABSL_GUARDED_BY(mu_);
  int64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<int64_t, std::function<void()>> idle_waiters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_CALL_GATE_H_
