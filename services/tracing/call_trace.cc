#include "services/tracing/call_trace.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace plimsoll::services {

std::optional<TraceContext> TraceOf(
    const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  // Two traceparents are as bad as none.
  if (metadata.count(kTraceParentKey) != 1) return std::nullopt;
  const grpc::string_ref parent = metadata.find(kTraceParentKey)->second;
  std::string state;
  const auto [begin, end] = metadata.equal_range(kTraceStateKey);
  for (auto one = begin; one != end; ++one) {
    absl::StrAppend(&state, state.empty() ? "" : ",",
                    absl::string_view(one->second.data(), one->second.size()));
  }
  return ParseTrace({parent.data(), parent.size()}, state);
}

void AddTrace(const std::optional<TraceContext>& trace,
              grpc::ClientContext& context) {
  if (!trace.has_value()) return;
  context.AddMetadata(kTraceParentKey, TraceParentOf(*trace));
  if (!trace->state.empty()) context.AddMetadata(kTraceStateKey, trace->state);
}

}  // namespace plimsoll::services
