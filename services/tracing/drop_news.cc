#include "services/tracing/drop_news.h"

#include <utility>

namespace plimsoll::services {

std::optional<DropNews::Line> DropNews::Take(absl::Time now, bool is_taken,
                                             int64_t n_dropped) {
  const bool is_back = is_down_ && is_taken;
  const bool is_warning =
      !is_back && n_dropped > n_told_ && now >= next_warning_;
  if (!is_back && !is_warning) return std::nullopt;
  is_down_ = !is_taken;
  if (is_warning) next_warning_ = now + kInterval;
  return Line{.is_warning = is_warning,
              .n_dropped = n_dropped - std::exchange(n_told_, n_dropped)};
}

}  // namespace plimsoll::services
