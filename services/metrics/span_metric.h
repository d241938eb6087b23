// The metric of spans, which all servers have. docs/metrics.md explains it.
#ifndef PLIMSOLL_SERVICES_METRICS_SPAN_METRIC_H_
#define PLIMSOLL_SERVICES_METRICS_SPAN_METRIC_H_

#include "services/metrics/metric.h"
#include "services/metrics/scrape.h"
#include "services/tracing/tracer.h"

namespace plimsoll::services {

inline constexpr Metric kSpans = {
    "plimsoll_spans_total", MetricType::kCounter, "result",
    "Spans that the collector of traces took (sent), or that it did not take "
    "in time or found the queue full (dropped). No value without "
    "--otlp-endpoint."};

// Adds the values of this process's tracer, if it has one.
inline void AddSpans(Scrape& scrape) {
  const Tracer* const tracer = Tracer::Active();
  if (tracer == nullptr) return;
  const SpanExporter& exporter = tracer->exporter();
  scrape.Add(kSpans, {{"result", "sent"}}, exporter.n_sent());
  scrape.Add(kSpans, {{"result", "dropped"}}, exporter.n_dropped());
}

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_METRICS_SPAN_METRIC_H_
