// Keeps repeated lines from filling the log.
#ifndef PLIMSOLL_SERVICES_HOST_LOG_REPEATS_H_
#define PLIMSOLL_SERVICES_HOST_LOG_REPEATS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace plimsoll::services {

// Counts the lines of each message. Not thread-safe. spdlog's dup_filter_sink
// would hide a line only if it equals the one before it, with all fields.
class LogRepeats {
 public:
  // At most this many lines with the same message are shown in a window.
  static constexpr int kMaxShown = 20;
  static constexpr absl::Duration kWindow = absl::Seconds(10);
  // Beyond this many messages all counts begin again.
  static constexpr size_t kMaxMessages = 1'024;

  // Takes a line at `now`, which must not go back. Returns the number of hidden
  // lines of this message since the last shown line, or nothing if this line
  // must not be shown.
  std::optional<int64_t> Take(absl::string_view message, absl::Time now);

 private:
  struct Count {
    absl::Time begin;  // when the window began
    int n_shown = 0;
    int64_t n_hidden = 0;
  };

  std::map<std::string, Count, std::less<>> counts_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_LOG_REPEATS_H_
