// The trace that a call belongs to, as W3C's Trace Context writes it in
// headers.
#ifndef PLIMSOLL_SERVICES_TRACING_TRACE_CONTEXT_H_
#define PLIMSOLL_SERVICES_TRACING_TRACE_CONTEXT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::services {

inline constexpr char kTraceParentKey[] = "traceparent";
inline constexpr char kTraceStateKey[] = "tracestate";

// A longer tracestate, or one with more members, is ignored.
inline constexpr size_t kMaxTraceStateBytes = 512;
inline constexpr int kMaxTraceStateMembers = 32;
// A longer traceparent of a later version is ignored.
inline constexpr size_t kMaxTraceParentBytes = 256;

using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

// A span's place in its trace.
struct TraceContext {
  TraceId trace_id = {};    // not 0
  SpanId span_id = {};      // not 0
  bool is_sampled = false;  // whether the trace's spans are recorded
  std::string state = {};   // the tracestate: printable ASCII
};

// Reads the two headers of a call. Returns nothing if `parent` is not exactly
// what W3C allows. A bad `state` is ignored. In a good `state`, empty members
// are removed, and so are spaces and tabs around members.
std::optional<TraceContext> ParseTrace(absl::string_view parent,
                                       absl::string_view state);

// Returns the traceparent header of a span.
std::string TraceParentOf(const TraceContext& context);

// Returns lower-case hexadecimal digits.
std::string ToHex(const TraceId& id);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_TRACING_TRACE_CONTEXT_H_
