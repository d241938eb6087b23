#include "services/metrics/histogram.h"

#include <algorithm>

#include "base/status_macros.h"

namespace plimsoll::services {

Histogram::Histogram(std::span<const double> bounds) : bounds_(bounds) {
  PLIMSOLL_CHECK(bounds.size() <= kMaxBounds, "there is a count for each");
}

void Histogram::Observe(double value) {
  const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  const auto index = static_cast<size_t>(bound - bounds_.begin());
  counts_[index].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

Histogram::Counts Histogram::Read() const {
  Counts read = {.bounds = bounds_};
  uint64_t n = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) {
    n += counts_[i].load(std::memory_order_relaxed);
    read.cumulative[i] = n;
  }
  read.sum = sum_.load(std::memory_order_relaxed);
  return read;
}

}  // namespace plimsoll::services
