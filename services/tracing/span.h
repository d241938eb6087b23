// A piece of work that has ended, for a collector of traces.
#ifndef PLIMSOLL_SERVICES_TRACING_SPAN_H_
#define PLIMSOLL_SERVICES_TRACING_SPAN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/tracing/trace_context.h"

namespace plimsoll::services {

// The role of a span for its parent. The numbers are those of OTLP.
enum class SpanKind {
  kInternal = 1,  // a part of the work
  kServer = 2,    // the answer to a call
  kClient = 3,    // a call
};

using SpanValue = std::variant<std::string, int64_t, std::vector<std::string>>;

struct Span {
  TraceContext context;
  SpanId parent_id = {};  // 0: the trace begins with this span
  std::string name = {};  // valid UTF-8, as all texts of a span
  SpanKind kind = SpanKind::kInternal;
  absl::Time begin = {};
  absl::Time end = {};
  std::vector<std::pair<std::string, SpanValue>> attributes = {};
  absl::StatusCode code = absl::StatusCode::kOk;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_TRACING_SPAN_H_
