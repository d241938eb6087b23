// A mark of when work that could hang last went on.
#ifndef PLIMSOLL_BASE_SYNC_PROGRESS_MARK_H_
#define PLIMSOLL_BASE_SYNC_PROGRESS_MARK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

#include "absl/time/time.h"

namespace plimsoll {

// Whoever works touches the mark at each piece of the work, and stops it where
// nothing is to be done or where it waits for others. Thread-safe; takes no
// lock, so that it can be read whatever hangs.
class ProgressMark {
 public:
  // `clock` is called by all threads that use the mark.
  explicit ProgressMark(std::function<absl::Time()> clock)
      : clock_(std::move(clock)) {}
  ProgressMark(const ProgressMark&) = delete;
  ProgressMark& operator=(const ProgressMark&) = delete;

  // The work begins or goes on.
  void Touch() { last_ = absl::ToUnixNanos(clock_()); }
  // No work is under way any more.
  void Stop() { last_ = kNone; }
  // The time since the last Touch; 0 if no work is under way.
  absl::Duration Age() const {
    const int64_t last = last_;
    if (last == kNone) return absl::ZeroDuration();
    return clock_() - absl::FromUnixNanos(last);
  }

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  const std::function<absl::Time()> clock_;
  std::atomic<int64_t> last_ = kNone;
};

}  // namespace plimsoll

#endif  // PLIMSOLL_BASE_SYNC_PROGRESS_MARK_H_
