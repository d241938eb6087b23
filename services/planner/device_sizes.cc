#include "services/planner/device_sizes.h"

#include <algorithm>
#include <limits>

namespace plimsoll::services {

bool DeviceSizes::Say(const std::string& holder, int64_t bytes,
                      absl::Time now) {
  const auto known = said_.find(holder);
  const bool is_news = known == said_.end() || known->second.bytes != bytes;
  said_.insert_or_assign(holder, Size{bytes, now});
  if (said_.size() > kMaxHolders) {
    said_.erase(std::max_element(said_.begin(), said_.end(),
                                 [](const auto& a, const auto& b) {
                                   return a.second.bytes < b.second.bytes;
                                 }));
  }
  return is_news;
}

void DeviceSizes::Forget(
    absl::Time oldest,
    const std::function<bool(const std::string& holder)>& holds) {
  for (auto it = said_.begin(); it != said_.end();) {
    const bool stays = it->second.said_at >= oldest || holds(it->first);
    it = stays ? std::next(it) : said_.erase(it);
  }
}

int64_t DeviceSizes::Smallest() const {
  int64_t bytes = std::numeric_limits<int64_t>::max();
  for (const auto& [holder, size] : said_) bytes = std::min(bytes, size.bytes);
  return bytes;
}

}  // namespace plimsoll::services
