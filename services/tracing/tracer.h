// Decides which traces are recorded, and begins their spans.
#ifndef PLIMSOLL_SERVICES_TRACING_TRACER_H_
#define PLIMSOLL_SERVICES_TRACING_TRACER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/tracing/span.h"
#include "services/tracing/span_exporter.h"
#include "services/tracing/trace_context.h"

namespace plimsoll::services {

// The environment variable with the endpoint if no flag names one.
inline constexpr char kOtlpVariable[] = "OTEL_EXPORTER_OTLP_ENDPOINT";

struct TracingOptions {
  std::string endpoint;      // as ParseOtlpEndpoint takes it; empty: no spans
  std::string ca_file = {};  // as NewOtlpSender takes it
  double share = 1.0;  // recorded part of the traces that begin here, 0 to 1
};

// Returns the number of the tracer's own threads, without gRPC's.
inline int TracingThreads(const TracingOptions& options) {
  return options.endpoint.empty() ? 0 : 1;
}

// Whether a trace that begins here is recorded. The answer depends only on the
// id, and is true for `share` of all ids.
bool IsSampled(const TraceId& id, double share);

// Takes the spans of this process. A process has at most one tracer, which
// outlives all calls. Thread-safe, except for construction and destruction.
class Tracer {
 public:
  // Returns null without an endpoint; then nothing is recorded. `service` names
  // the process among others.
  // Errors: kInvalidArgument if there is a `ca_file` but no endpoint; those of
  // ParseOtlpEndpoint, NewOtlpSender and SpanExporter::Start.
  static absl::StatusOr<std::unique_ptr<Tracer>> Start(
      const TracingOptions& options, const std::string& service);
  // For tests.
  Tracer(std::unique_ptr<SpanExporter> exporter, double share);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // The process's tracer, or null.
  static Tracer* Active();

  // The context of a new span: in the trace of `parent`, which says whether it
  // is sampled, or in a new one.
  TraceContext NewContext(const std::optional<TraceContext>& parent) const;
  // Takes a span whose context is sampled. Never blocks.
  void Record(Span span) { exporter_->Add(std::move(span)); }

  const SpanExporter& exporter() const { return *exporter_; }

 private:
  const std::unique_ptr<SpanExporter> exporter_;
  const double share_;
};

// A span that has begun. Without a tracer the span only knows its parent. If
// its trace is not sampled, the span records nothing. Movable; not thread-safe.
class OpenSpan {
 public:
  OpenSpan() = default;
  // `parent` is the caller's context, if there is one.
  OpenSpan(const std::string& name, SpanKind kind,
           const std::optional<TraceContext>& parent);
  OpenSpan(OpenSpan&&) = default;
  OpenSpan& operator=(OpenSpan&&) = default;

  // The context for calls that belong to the span: the span's own or, without a
  // tracer, the parent's.
  const std::optional<TraceContext>& context() const { return context_; }
  bool is_recorded() const { return span_.has_value(); }
  absl::Time begin() const {
    return is_recorded() ? span_->begin : absl::InfinitePast();
  }
  void SetName(std::string name);
  void Set(const std::string& key, SpanValue value);
  // A part of this span that has ended.
  void AddChild(const std::string& name, absl::Time begin, absl::Time end);
  // Passes the span to the tracer; later calls do nothing.
  void End(absl::StatusCode code);

 private:
  std::optional<TraceContext> context_;
  std::optional<Span> span_;  // while it is open, if it is recorded
};

// While this object exists, calls of this thread belong to the span of
// `context`.
class CurrentTrace {
 public:
  explicit CurrentTrace(std::optional<TraceContext> context);
  ~CurrentTrace();
  CurrentTrace(const CurrentTrace&) = delete;
  CurrentTrace& operator=(const CurrentTrace&) = delete;

  // Returns the context of this thread.
  static const std::optional<TraceContext>& Get();

 private:
  std::optional<TraceContext> outer_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_TRACING_TRACER_H_
