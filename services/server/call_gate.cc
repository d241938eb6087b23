#include "services/server/call_gate.h"

#include "services/server/call_guard.h"
#include "services/wire/errors.h"

namespace plimsoll::services {

absl::StatusOr<CallGate::Pass> CallGate::Enter() {
  SteadyMutexLock lock(&mu_);
  if (closed_) {
    return WithDetails(
        absl::UnavailableError("this server drains and takes nothing new"),
        {v1::ERROR_REASON_DRAINING, {}, absl::ZeroDuration()});
  }
  ++running_;
  return Pass(this);
}

void CallGate::Close() {
  std::function<void()> listener;
  {
    SteadyMutexLock lock(&mu_);
    closed_ = true;
    listener = close_listener_;
  }
  if (listener) listener();
}

bool CallGate::is_closed() const {
  SteadyMutexLock lock(&mu_);
  return closed_;
}

int64_t CallGate::running() const {
  SteadyMutexLock lock(&mu_);
  return running_;
}

bool CallGate::AwaitIdle(absl::Duration timeout) {
  SteadyMutexLock lock(&mu_);
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return running_ == 0;
  };
  return mu_.AwaitFor(absl::Condition(&idle), timeout);
}

void CallGate::SetCloseListener(std::function<void()> listener) {
  SteadyMutexLock lock(&mu_);
  close_listener_ = std::move(listener);
}

void CallGate::SetGuard(std::shared_ptr<CallGuard> guard) {
  SteadyMutexLock lock(&mu_);
  guard_ = std::move(guard);
}

void CallGate::SetGuardOfChanges(std::shared_ptr<CallGuard> guard) {
  SteadyMutexLock lock(&mu_);
  guard_of_changes_ = std::move(guard);
}

std::shared_ptr<CallGuard> CallGate::guard() const {
  SteadyMutexLock lock(&mu_);
  return guard_;
}

std::shared_ptr<CallGuard> CallGate::guard_of_changes() const {
  SteadyMutexLock lock(&mu_);
  return guard_of_changes_;
}

AuthFailureCounts CallGate::auth_failures() const {
  // Where both are there, they are one.
  std::shared_ptr<CallGuard> one = guard();
  if (one == nullptr) one = guard_of_changes();
  return one == nullptr ? AuthFailureCounts() : one->failures();
}

int64_t CallGate::NotifyWhenIdle(std::function<void()> told) {
  {
    SteadyMutexLock lock(&mu_);
    if (running_ > 0) {
      idle_waiters_.emplace(next_id_, std::move(told));
      return next_id_++;
    }
  }
  told();
  return 0;
}

void CallGate::Forget(int64_t id) {
  std::function<void()> forgotten;  // ends without our lock
  SteadyMutexLock lock(&mu_);
  const auto found = idle_waiters_.find(id);
  if (found == idle_waiters_.end()) return;
  forgotten = std::move(found->second);
  idle_waiters_.erase(found);
}

void CallGate::Exit() {
  std::map<int64_t, std::function<void()>> told;
  {
    SteadyMutexLock lock(&mu_);
    if (--running_ == 0) told.swap(idle_waiters_);
  }
  for (const auto& [id, tell] : told) tell();
}

}  // namespace plimsoll::services
