// Tells when something that may change must be checked again.
#ifndef PLIMSOLL_SERVICES_HOST_POLL_TIMER_H_
#define PLIMSOLL_SERVICES_HOST_POLL_TIMER_H_

#include "absl/time/time.h"

namespace plimsoll::services {

// Not thread-safe.
class PollTimer {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(1);

  // The first look was at `now`.
  explicit PollTimer(absl::Time now) : looked_at_(now) {}

  // Returns true if the last look was not within kInterval before `now`; then
  // the next look counts from there. A clock that is set back does not stop the
  // checks.
  bool IsDue(absl::Time now) {
    if (now >= looked_at_ && now < looked_at_ + kInterval) return false;
    looked_at_ = now;
    return true;
  }

 private:
  absl::Time looked_at_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_POLL_TIMER_H_
