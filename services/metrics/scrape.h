// One reply to Prometheus: the values of metrics at a moment, and their text.
#ifndef PLIMSOLL_SERVICES_METRICS_SCRAPE_H_
#define PLIMSOLL_SERVICES_METRICS_SCRAPE_H_

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "services/metrics/metric.h"

namespace plimsoll::services {

// Not thread-safe.
class Scrape {
 public:
  using Label = prometheus::ClientMetric::Label;
  using Labels = std::vector<Label>;
  using Histogram = prometheus::ClientMetric::Histogram;

  // It has all of `metrics`, in this order, at first without values.
  explicit Scrape(std::span<const Metric* const> metrics);

  // Adds a value of `metric`, which is one of those above. `labels` are those
  // that the metric names, in their order.
  void Add(const Metric& metric, Labels labels, double value);
  void Add(const Metric& metric, Labels labels, int64_t value) {
    Add(metric, std::move(labels), static_cast<double>(value));
  }
  void Add(const Metric& metric, Labels labels, const Histogram& histogram);

  // Returns the text format of Prometheus, version 0.0.4.
  std::string Text() const;

 private:
  prometheus::ClientMetric& Series(const Metric& metric, Labels labels);

  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_METRICS_SCRAPE_H_
