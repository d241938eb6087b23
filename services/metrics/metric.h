// The definition of a metric, without its values.
#ifndef PLIMSOLL_SERVICES_METRICS_METRIC_H_
#define PLIMSOLL_SERVICES_METRICS_METRIC_H_

namespace plimsoll::services {

enum class MetricType { kCounter, kGauge, kHistogram };

// docs/metrics.md has a line for each.
struct Metric {
  const char* name;
  MetricType type;
  const char* labels;  // separated by ", "; every series has all labels
  const char* help;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_METRICS_METRIC_H_
