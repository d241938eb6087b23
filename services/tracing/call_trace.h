// The trace of a gRPC call, in its metadata.
#ifndef PLIMSOLL_SERVICES_TRACING_CALL_TRACE_H_
#define PLIMSOLL_SERVICES_TRACING_CALL_TRACE_H_

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include <optional>

#include "services/tracing/trace_context.h"

namespace plimsoll::services {

// The caller's trace context; nothing if the caller sent none, or a bad one.
std::optional<TraceContext> TraceOf(const grpc::CallbackServerContext& context);

// Adds the trace context of the span that makes the call, if there is one.
void AddTrace(const std::optional<TraceContext>& trace,
              grpc::ClientContext& context);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_TRACING_CALL_TRACE_H_
