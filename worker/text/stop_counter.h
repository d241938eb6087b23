// Calls a stop check now and then.
#ifndef PLIMSOLL_WORKER_TEXT_STOP_COUNTER_H_
#define PLIMSOLL_WORKER_TEXT_STOP_COUNTER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/stop_check.h"

namespace plimsoll::worker {

// For a computation with very small steps, where a stop check for each step
// would cost more than the step.
class StopCounter {
 public:
  // A stop check comes after this many bytes of text, or steps that cost as
  // much: well below a millisecond.
  static constexpr int64_t kUnits = 4 << 10;

  // `check` must outlive it.
  explicit StopCounter(StopCheck check) : check_(check) {}

  // Counts `units` more. Errors: those of the check.
  absl::Status Spend(int64_t units) {
    left_ -= units;
    if (left_ > 0) return absl::OkStatus();
    left_ = kUnits;
    return check_();
  }

 private:
  const StopCheck check_;
  int64_t left_ = kUnits;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_STOP_COUNTER_H_
