// Says how long work has run that could hang, and how long ago it last went on.
#ifndef PLIMSOLL_BASE_SYNC_PROGRESS_MARK_H_
#define PLIMSOLL_BASE_SYNC_PROGRESS_MARK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

#include "absl/time/time.h"

namespace plimsoll {

// The thread that works calls Begin, then Touch at each piece of the work, and
// Stop where nothing is to be done or where it waits for others. Thread-safe;
// takes no lock, so that it can be read whatever hangs.
class ProgressMark {
 public:
  // `clock` is called by all threads that use the mark.
  explicit ProgressMark(std::function<absl::Time()> clock)
      : clock_(std::move(clock)) {}
  ProgressMark(const ProgressMark&) = delete;
  ProgressMark& operator=(const ProgressMark&) = delete;

  // The work begins.
  void Begin() {
    const int64_t now = absl::ToUnixNanos(clock_());
    began_ = now;
    last_ = now;
  }
  // The work goes on.
  void Touch() { last_ = absl::ToUnixNanos(clock_()); }
  // No work is under way any more.
  void Stop() {
    began_ = kNone;
    last_ = kNone;
  }
  // The time since Begin; 0 if no work is under way.
  absl::Duration Age() const { return Since(began_); }
  // The time since the last Begin or Touch; 0 if no work is under way.
  absl::Duration StallTime() const { return Since(last_); }

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  absl::Duration Since(int64_t mark) const {
    if (mark == kNone) return absl::ZeroDuration();
    return clock_() - absl::FromUnixNanos(mark);
  }

  const std::function<absl::Time()> clock_;
  std::atomic<int64_t> last_ = kNone;
  std::atomic<int64_t> began_ = kNone;
};

}  // namespace plimsoll

#endif  // PLIMSOLL_BASE_SYNC_PROGRESS_MARK_H_
