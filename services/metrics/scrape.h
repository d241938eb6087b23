// One reply to Prometheus: the values of metrics at a moment, and their text.
#ifndef PLIMSOLL_SERVICES_METRICS_SCRAPE_H_
#define PLIMSOLL_SERVICES_METRICS_SCRAPE_H_

#include <prometheus/client_metric.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "services/metrics/metric.h"

namespace plimsoll::services {

// Writes the text format of Prometheus, version 0.0.4. It writes each value as
// it comes: a worker with 64 models has 17,000 lines, which prometheus-cpp's
// serializer takes several times as long for. Not thread-safe.
class Scrape {
 public:
  using Label = prometheus::ClientMetric::Label;
  using Labels = std::vector<Label>;
  using Histogram = prometheus::ClientMetric::Histogram;

  // It has all of `metrics`, in this order, at first without values. They must
  // outlive it.
  explicit Scrape(std::span<const Metric* const> metrics);

  // Adds a value of `metric`, which is one of those above. `labels` are those
  // that the metric names, in their order.
  void Add(const Metric& metric, const Labels& labels, double value);
  void Add(const Metric& metric, const Labels& labels, int64_t value) {
    Add(metric, labels, static_cast<double>(value));
  }
  void Add(const Metric& metric, const Labels& labels,
           const Histogram& histogram);

  // Returns the text of all metrics and their values.
  std::string Text() const;

 private:
  // An upper bound of a bucket, and how it ends a line before the count.
  struct Bound {
    double value;
    std::string text;
  };
  struct Family {
    const Metric* metric;
    std::string lines;          // of its values
    std::vector<Bound> bounds;  // of the last histogram
  };

  Family& FamilyOf(const Metric& metric);

  std::vector<Family> families_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_METRICS_SCRAPE_H_
