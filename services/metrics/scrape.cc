#include "services/metrics/scrape.h"

#include <prometheus/metric_type.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace plimsoll::services {
namespace {

prometheus::MetricType TypeOf(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return prometheus::MetricType::Counter;
    case MetricType::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricType::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

}  // namespace

Scrape::Scrape(std::span<const Metric* const> metrics) {
  for (const Metric* metric : metrics) {
    prometheus::MetricFamily& family = families_.emplace_back();
    family.name = metric->name;
    family.help = metric->help;
    family.type = TypeOf(metric->type);
  }
}

void Scrape::Add(const Metric& metric, Labels labels, double value) {
  prometheus::ClientMetric& series = Series(metric, std::move(labels));
  if (metric.type == MetricType::kCounter) {
    series.counter.value = value;
  } else {
    series.gauge.value = value;
  }
}

void Scrape::Add(const Metric& metric, Labels labels,
                 const Histogram& histogram) {
  Series(metric, std::move(labels)).histogram = histogram;
}

prometheus::ClientMetric& Scrape::Series(const Metric& metric, Labels labels) {
  const auto family = std::find_if(
      families_.begin(), families_.end(),
      [&metric](const auto& one) { return one.name == metric.name; });
  PLIMSOLL_CHECK(family != families_.end(), "the list has every metric");
  prometheus::ClientMetric& series = family->metric.emplace_back();
  series.label = std::move(labels);
  return series;
}

std::string Scrape::Text() const {
  return prometheus::TextSerializer().Serialize(families_);
}

}  // namespace plimsoll::services
