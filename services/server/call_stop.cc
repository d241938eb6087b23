#include "services/server/call_stop.h"

#include "services/wire/errors.h"

namespace plimsoll::services {

absl::Status CallStop::Check() const {
  if (deadline_ != absl::InfiniteFuture() && BootTime() >= deadline_) {
    return absl::DeadlineExceededError("the call's deadline has passed");
  }
  if (is_cancelled_.load(std::memory_order_relaxed)) {
    return absl::CancelledError("the client is gone");
  }
  if (is_aborted_.load(std::memory_order_relaxed)) {
    return WithDetails(
        absl::UnavailableError("this server ends and stopped the call"),
        {v1::ERROR_REASON_DRAINING, {}, absl::ZeroDuration()});
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::services
