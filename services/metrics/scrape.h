// One reply to Prometheus: the values of metrics at a moment, and their text.
#ifndef PLIMSOLL_SERVICES_METRICS_SCRAPE_H_
#define PLIMSOLL_SERVICES_METRICS_SCRAPE_H_

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/metrics/histogram.h"
#include "services/metrics/metric.h"

namespace plimsoll::services {

// Writes the text format of Prometheus, version 0.0.4. Each value is written
// immediately into the text of its metric: a worker with 64 models has 17,000
// lines. Not thread-safe.
class Scrape {
 public:
  // Name and value must stay valid until Add returns.
  struct Label {
    absl::string_view name;
    absl::string_view value;
  };
  using Labels = std::initializer_list<Label>;

  // The scrape has all of `metrics`, in this order, at first without values.
  // `metrics` must outlive it.
  explicit Scrape(std::span<const Metric* const> metrics);

  // Adds a value of `metric`, which is one of those above. `labels` are those
  // that the metric names, in their order.
  void Add(const Metric& metric, Labels labels, double value);
  void Add(const Metric& metric, Labels labels, int64_t value) {
    Add(metric, labels, static_cast<double>(value));
  }
  void Add(const Metric& metric, Labels labels,
           const Histogram::Counts& counts);

  // Returns the text of all metrics and their values.
  std::string Text() const;

 private:
  struct Family {
    const Metric* metric;
    std::string lines = {};  // the lines of its values
    // The last histogram's bounds, and how a line with each of them and with
    // "+Inf" ends before the count. Most histograms of a metric have the same
    // bounds.
    std::vector<double> bounds = {};
    std::vector<std::string> bound_texts = {};
  };

  Family& FamilyOf(const Metric& metric);
  // Sets the bounds of the histograms that follow.
  static void SetBounds(std::span<const double> bounds, Family& family);
  // Writes the lines of all buckets, each of which begins with `begin`.
  static void AddBuckets(absl::string_view begin,
                         const Histogram::Counts& counts, Family& family);

  std::vector<Family> families_;
  size_t last_ = 0;     // the family of the last value
  std::string labels_;  // the last histogram's labels, as between the braces
  std::string begin_;   // how its buckets' lines begin
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_METRICS_SCRAPE_H_
