// Counts how often values fell between bounds, without a lock.
#ifndef PLIMSOLL_SERVICES_METRICS_HISTOGRAM_H_
#define PLIMSOLL_SERVICES_METRICS_HISTOGRAM_H_

#include <prometheus/client_metric.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace plimsoll::services {

// The library's own histogram takes a mutex for each value. The step thread
// counts values between steps, and may not wait there for who reads them.
// Thread-safe.
class Histogram {
 public:
  static constexpr size_t kMaxBounds = 20;

  // `bounds` rise, are at most kMaxBounds and outlive it.
  explicit Histogram(std::span<const double> bounds);

  // Takes no lock and allocates nothing.
  void Observe(double value);

  // A value that is counted meanwhile is in the result or not.
  prometheus::ClientMetric::Histogram Read() const;

 private:
  const std::span<const double> bounds_;
  // counts_[i] has the values up to bounds_[i] and above those before it.
  std::array<std::atomic<uint64_t>, kMaxBounds + 1> counts_ = {};
  std::atomic<double> sum_ = 0;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_METRICS_HISTOGRAM_H_
