// Counts how often values fell between bounds, without a lock.
#ifndef PLIMSOLL_SERVICES_METRICS_HISTOGRAM_H_
#define PLIMSOLL_SERVICES_METRICS_HISTOGRAM_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace plimsoll::services {

// prometheus-cpp's histogram takes a mutex for each value. The step thread
// counts values between steps, and must not wait there for readers.
// Thread-safe.
class Histogram {
 public:
  static constexpr size_t kMaxBounds = 20;

  // The counts at one moment.
  struct Counts {
    uint64_t total() const { return cumulative[bounds.size()]; }

    std::span<const double> bounds;
    // Element i counts the values up to bounds[i]. The element behind the last
    // bound counts all values.
    std::array<uint64_t, kMaxBounds + 1> cumulative = {};
    double sum = 0;
  };

  // `bounds` must increase, be at most kMaxBounds in number, and outlive it.
  explicit Histogram(std::span<const double> bounds);

  // Takes no lock and allocates nothing.
  void Observe(double value);

  // A value that is counted during the call may be in the result or not.
  Counts Read() const;

 private:
  const std::span<const double> bounds_;
  // counts_[i] counts the values up to bounds_[i] that are above the bounds
  // before.
  std::array<std::atomic<uint64_t>, kMaxBounds + 1> counts_ = {};
  std::atomic<double> sum_ = 0;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_METRICS_HISTOGRAM_H_
