// What a metric is, apart from its values.
#ifndef PLIMSOLL_SERVICES_METRICS_METRIC_H_
#define PLIMSOLL_SERVICES_METRICS_METRIC_H_

namespace plimsoll::services {

enum class MetricType { kCounter, kGauge, kHistogram };

// docs/metrics.md has a line for each.
struct Metric {
  const char* name;
  MetricType type;
  const char* labels;  // with ", " between them; every series has all of them
  const char* help;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_METRICS_METRIC_H_
