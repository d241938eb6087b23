// Asks now and then whether a computation should go on.
#ifndef PLIMSOLL_WORKER_TEXT_STOP_COUNTER_H_
#define PLIMSOLL_WORKER_TEXT_STOP_COUNTER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/stop_check.h"

namespace plimsoll::worker {

// For one computation, whose elements are so small that asking for each of them
// would cost more than they do.
class StopCounter {
 public:
  // Bytes of text, or steps that cost as much: well below a millisecond.
  static constexpr int64_t kUnits = 4 << 10;

  // `check` must outlive it.
  explicit StopCounter(StopCheck check) : check_(check) {}

  // Says that so much was done.
  // Errors: what the check says.
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
