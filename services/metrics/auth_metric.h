// The metric for calls that were refused because of the caller's identity or
// role. All servers have it. docs/metrics.md explains it.
#ifndef PLIMSOLL_SERVICES_METRICS_AUTH_METRIC_H_
#define PLIMSOLL_SERVICES_METRICS_AUTH_METRIC_H_

#include <cstddef>

#include "services/metrics/metric.h"
#include "services/metrics/scrape.h"
#include "services/server/access/auth_failure.h"

namespace plimsoll::services {

inline constexpr Metric kAuthFailures = {
    "plimsoll_auth_failures_total", MetricType::kCounter, "reason",
    "Calls that were refused because of their caller: without a token, with a "
    "wrong one, without a grant, or with too low a role."};

inline void AddAuthFailures(const AuthFailureCounts& failures, Scrape& scrape) {
  for (size_t i = 0; i < failures.size(); ++i) {
    scrape.Add(kAuthFailures, {{"reason", kAuthFailureWords[i]}}, failures[i]);
  }
}

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_METRICS_AUTH_METRIC_H_
