// Decides when the log has a line about spans that are lost.
#ifndef PLIMSOLL_SERVICES_TRACING_DROP_NEWS_H_
#define PLIMSOLL_SERVICES_TRACING_DROP_NEWS_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace plimsoll::services {

// Not thread-safe.
class DropNews {
 public:
  // In this time there is at most one warning, and at most one line which says
  // that the receiver takes spans again.
  static constexpr absl::Duration kInterval = absl::Minutes(1);

  struct Line {
    bool is_warning = false;  // false: spans are taken again
    int64_t n_dropped = 0;    // spans since the line before
  };

  // Returns the line for the log after a batch, or nothing if no line is due.
  // `now` must not go back. `is_taken` tells whether the receiver took the
  // batch. `n_dropped` counts all spans that were dropped so far.
  std::optional<Line> Take(absl::Time now, bool is_taken, int64_t n_dropped);

 private:
  absl::Time next_warning_ = absl::InfinitePast();
  int64_t n_told_ = 0;    // dropped spans that the log has reported
  bool is_down_ = false;  // the last line said that batches are not taken
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_TRACING_DROP_NEWS_H_
