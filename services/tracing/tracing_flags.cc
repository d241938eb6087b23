#include "services/tracing/tracing_flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "services/tracing/otlp_sender.h"

namespace plimsoll::services {
namespace {

std::string CheckEndpoint(const std::string& text) {
  if (text.empty()) return "";
  return std::string(ParseOtlpEndpoint(text).status().message());
}

std::string CheckShare(const std::string& text) {
  double share = 0;
  // No comparison with what is no number holds.
  const bool is_good =
      absl::SimpleAtod(text, &share) && share >= 0 && share <= 1;
  return is_good ? "" : "takes a number from 0 to 1";
}

}  // namespace

void AddTracingFlags(CLI::App& app, TracingOptions& options) {
  CLI::Option* const endpoint =
      app.add_option("--otlp-endpoint", options.endpoint,
                     "http://HOST:PORT or https://HOST:PORT of a collector "
                     "that gets spans by OTLP over gRPC "
                     "($OTEL_EXPORTER_OTLP_ENDPOINT; none: there are no spans)")
          ->type_name("URL")
          ->check(CheckEndpoint);
  if (const char* variable = std::getenv(kOtlpVariable)) {
    options.endpoint = variable;
    endpoint->default_str(variable);
  }
  app.add_option("--otlp-ca", options.ca_file,
                 "The authorities that the collector's certificate may come "
                 "from (those that the system trusts)")
      ->type_name("FILE");
  app.add_option("--trace-share", options.share,
                 "Share of the traces that begin here whose spans are sent, 0 "
                 "to 1; a caller's trace says itself whether it is sampled")
      ->type_name("SHARE")
      ->capture_default_str()
      ->check(CheckShare);
}

}  // namespace plimsoll::services
