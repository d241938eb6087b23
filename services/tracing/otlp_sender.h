// Sends spans to a collector by OTLP over gRPC.
#ifndef PLIMSOLL_SERVICES_TRACING_OTLP_SENDER_H_
#define PLIMSOLL_SERVICES_TRACING_OTLP_SENDER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/tracing/span_exporter.h"

namespace plimsoll::services {

struct OtlpEndpoint {
  std::string target;  // as gRPC takes it
  bool is_tls = false;
};

// Reads http://HOST:PORT or https://HOST:PORT. A "/" may follow.
// Errors: kInvalidArgument.
absl::StatusOr<OtlpEndpoint> ParseOtlpEndpoint(absl::string_view text);

// `ca_file` has the CAs for the collector's certificate; empty: the CAs that
// the system trusts. `service` is the name of this process among others, as
// "plimsoll-worker".
// Errors: kInvalidArgument if `ca_file` cannot be read, or is given without
// TLS.
absl::StatusOr<std::unique_ptr<SpanSender>> NewOtlpSender(
    const OtlpEndpoint& endpoint, const std::string& ca_file,
    const std::string& service);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_TRACING_OTLP_SENDER_H_
