#include "services/tracing/tracing_flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

#include "services/tracing/otlp_sender.h"

namespace plimsoll::services {

void AddTracingFlags(CLI::App& app, TracingOptions& options) {
  if (const char* endpoint = std::getenv("OTEL_EXPORTER_OTLP_ENDPOINT")) {
    options.endpoint = endpoint;
  }
  app.add_option("--otlp-endpoint", options.endpoint,
                 "http://HOST:PORT or https://HOST:PORT of a collector that "
                 "gets spans by OTLP over gRPC "
                 "($OTEL_EXPORTER_OTLP_ENDPOINT; none: there are no spans)")
      ->type_name("URL")
      ->check([](const std::string& text) {
        return text.empty()
                   ? std::string()
                   : std::string(ParseOtlpEndpoint(text).status().message());
      });
  app.add_option("--trace-share", options.share,
                 "Share of the traces that begin here whose spans are sent, 0 "
                 "to 1; a caller's trace says itself whether it is sampled")
      ->type_name("SHARE")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
}

}  // namespace plimsoll::services
