// The flags for tracing, which all servers share.
#ifndef PLIMSOLL_SERVICES_TRACING_TRACING_FLAGS_H_
#define PLIMSOLL_SERVICES_TRACING_TRACING_FLAGS_H_

#include "services/tracing/tracer.h"

namespace CLI {
class App;
}  // namespace CLI

namespace plimsoll::services {

// Adds --otlp-endpoint, --otlp-ca and --trace-share. Without the first one,
// kOtlpVariable of the environment is the endpoint.
void AddTracingFlags(CLI::App& app, TracingOptions& options);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_TRACING_TRACING_FLAGS_H_
