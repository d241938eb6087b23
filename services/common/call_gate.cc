#include "services/common/call_gate.h"

#include "services/common/errors.h"

namespace plimsoll::services {

absl::StatusOr<CallGate::Pass> CallGate::Enter() {
  absl::MutexLock lock(&mu_);
  if (closed_) {
    return WithDetails(absl::UnavailableError("this server is shutting down"),
                       {v1::ERROR_REASON_DRAINING, {}, absl::ZeroDuration()});
  }
  ++running_;
  return Pass(this);
}

void CallGate::Close() {
  absl::MutexLock lock(&mu_);
  closed_ = true;
}

bool CallGate::AwaitIdle(absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return running_ == 0;
  };
  return mu_.AwaitWithTimeout(absl::Condition(&idle), timeout);
}

void CallGate::Leave() {
  absl::MutexLock lock(&mu_);
  --running_;
}

}  // namespace plimsoll::services
