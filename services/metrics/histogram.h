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
// counts values between steps, and may not wait there for who reads them.
// Thread-safe.
class Histogram {
 public:
  static constexpr size_t kMaxBounds = 20;

  // What was counted up to a moment.
  struct Counts {
    uint64_t total() const { return cumulative[bounds.size()]; }

    std::span<const double> bounds;
    // Element i has the values up to bounds[i], the one behind the last bound
    // all values.
    std::array<uint64_t, kMaxBounds + 1> cumulative = {};
    double sum = 0;
  };

  // `bounds` rise, are at most kMaxBounds and outlive it.
  explicit Histogram(std::span<const double> bounds);

  // Takes no lock and allocates nothing.
  void Observe(double value);

  // A value that is counted meanwhile is in the result or not.
  Counts Read() const;

 private:
  const std::span<const double> bounds_;
  // counts_[i] has the values up to bounds_[i] and above those before it.
  std::array<std::atomic<uint64_t>, kMaxBounds + 1> counts_ = {};
  std::atomic<double> sum_ = 0;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_METRICS_HISTOGRAM_H_
