#include "services/host/log_repeats.h"

#include <utility>

namespace plimsoll::services {

std::optional<int64_t> LogRepeats::Take(absl::string_view message,
                                        absl::Time now) {
  if (counts_.size() >= kMaxMessages && !counts_.contains(message)) {
    counts_.clear();
  }
  Count& count =
      counts_.try_emplace(std::string(message), Count{now}).first->second;
  if (now - count.begin >= kWindow) {
    count.begin = now;
    count.n_shown = 0;
  }
  if (count.n_shown == kMaxShown) {
    ++count.n_hidden;
    return std::nullopt;
  }
  ++count.n_shown;
  return std::exchange(count.n_hidden, 0);
}

}  // namespace plimsoll::services
