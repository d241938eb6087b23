#include "services/tracing/otlp_sender.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/sync/fault.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "services/host/random_id.h"
#include "services/server/credentials.h"
#include "services/server/tls_files.h"

namespace plimsoll::services {
namespace {

namespace otlp = opentelemetry::proto;

constexpr uint32_t kSampledFlag = 1;

template <typename Bytes>
std::string ToBytes(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void SetValue(const SpanValue& value, otlp::common::v1::AnyValue& out) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    out.set_string_value(*text);
  } else if (const auto* number = std::get_if<int64_t>(&value)) {
    out.set_int_value(*number);
  } else {
    auto& list = *out.mutable_array_value();
    for (const std::string& one : std::get<std::vector<std::string>>(value)) {
      list.add_values()->set_string_value(one);
    }
  }
}

template <typename Message>
void AddAttribute(const std::string& key, const SpanValue& value,
                  Message& message) {
  otlp::common::v1::KeyValue& added = *message.add_attributes();
  added.set_key(key);
  SetValue(value, *added.mutable_value());
}

uint64_t Nanoseconds(absl::Time time) {
  return static_cast<uint64_t>(absl::ToUnixNanos(time));
}

void SetSpan(const Span& span, otlp::trace::v1::Span& out) {
  out.set_trace_id(ToBytes(span.context.trace_id));
  out.set_span_id(ToBytes(span.context.span_id));
  out.set_trace_state(span.context.state);
  if (span.parent_id != SpanId{}) {
    out.set_parent_span_id(ToBytes(span.parent_id));
  }
  out.set_name(span.name);
  out.set_kind(static_cast<otlp::trace::v1::Span::SpanKind>(
      static_cast<int>(span.kind)));
  out.set_start_time_unix_nano(Nanoseconds(span.begin));
  out.set_end_time_unix_nano(Nanoseconds(span.end));
  for (const auto& [key, value] : span.attributes) {
    AddAttribute(key, value, out);
  }
  if (span.context.is_sampled) out.set_flags(kSampledFlag);
  if (span.code == absl::StatusCode::kOk) return;
  // The message of an error may quote the request.
  const std::string code = absl::StatusCodeToString(span.code);
  AddAttribute("error.type", code, out);
  out.mutable_status()->set_code(otlp::trace::v1::Status::STATUS_CODE_ERROR);
  out.mutable_status()->set_message(code);
}

std::shared_ptr<grpc::Channel> NewChannel(const OtlpEndpoint& endpoint,
                                          const ClientSecurity& security) {
  grpc::ChannelArguments arguments;
  // A collector that comes back is noticed within a few batches.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  return grpc::CreateCustomChannel(
      endpoint.target, NewChannelCredentials(security, endpoint.target),
      arguments);
}

class OtlpSender final : public SpanSender {
 public:
  OtlpSender(const OtlpEndpoint& endpoint, const ClientSecurity& security,
             const std::string& service)
      : stub_(otlp::collector::trace::v1::TraceService::NewStub(
            NewChannel(endpoint, security))) {
    AddAttribute("service.name", service, resource_);
    AddAttribute("service.version", std::string(PLIMSOLL_VERSION), resource_);
    AddAttribute("service.instance.id", RandomId(), resource_);
    AddAttribute("process.pid", static_cast<int64_t>(getpid()), resource_);
  }

  absl::StatusOr<int64_t> Send(const std::vector<Span>& spans,
                               absl::Duration patience) override {
    otlp::collector::trace::v1::ExportTraceServiceRequest request;
    auto& of_process = *request.add_resource_spans();
    *of_process.mutable_resource() = resource_;
    auto& group = *of_process.add_scope_spans();
    group.mutable_scope()->set_name("plimsoll");
    group.mutable_scope()->set_version(PLIMSOLL_VERSION);
    for (const Span& span : spans) SetSpan(span, *group.add_spans());
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         absl::ToChronoMilliseconds(patience));
    {
      absl::MutexLock lock(&mu_);
      if (is_cancelled_) return absl::CancelledError("the process ends");
      running_ = &context;
    }
    otlp::collector::trace::v1::ExportTraceServiceResponse response;
    grpc::Status status = stub_->Export(&context, request, &response);
    if (PLIMSOLL_FAULT("span.send")) {
      status = {grpc::StatusCode::UNAVAILABLE, "Socket closed"};
    }
    {
      absl::MutexLock lock(&mu_);
      running_ = nullptr;
    }
    if (!status.ok()) {
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                          status.error_message());
    }
    const auto n_spans = static_cast<int64_t>(spans.size());
    const int64_t n_rejected = response.partial_success().rejected_spans();
    return n_spans - std::clamp<int64_t>(n_rejected, 0, n_spans);
  }

  void Cancel() override {
    absl::MutexLock lock(&mu_);
    is_cancelled_ = true;
    if (running_ != nullptr) running_->TryCancel();
  }

 private:
  const std::unique_ptr<otlp::collector::trace::v1::TraceService::Stub> stub_;
  otlp::resource::v1::Resource resource_;
  absl::Mutex mu_;
  grpc::ClientContext* running_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool is_cancelled_ ABSL_GUARDED_BY(mu_) = false;
};

bool IsPort(absl::string_view text) {
  int port = 0;
  return !text.empty() && text.size() <= 5 &&
         absl::ascii_isdigit(static_cast<unsigned char>(text[0])) &&
         absl::SimpleAtoi(text, &port) && port >= 1 && port <= 65'535;
}

// A name, an IPv4 address, or an IPv6 address in brackets.
bool IsHost(absl::string_view text) {
  const bool is_ipv6 =
      text.size() > 2 && text.front() == '[' && text.back() == ']';
  if (is_ipv6) text = text.substr(1, text.size() - 2);
  const auto is_good = [is_ipv6](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
           c == '-' || c == '_' || (is_ipv6 && c == ':');
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), is_good);
}

}  // namespace

absl::StatusOr<OtlpEndpoint> ParseOtlpEndpoint(absl::string_view text) {
  OtlpEndpoint endpoint;
  absl::string_view rest = text;
  endpoint.is_tls = absl::ConsumePrefix(&rest, "https://");
  const bool has_scheme =
      endpoint.is_tls || absl::ConsumePrefix(&rest, "http://");
  rest = absl::StripSuffix(rest, "/");
  const size_t colon = rest.rfind(':');
  if (!has_scheme || colon == rest.npos || !IsHost(rest.substr(0, colon)) ||
      !IsPort(rest.substr(colon + 1))) {
    return absl::InvalidArgumentError(
        "takes http://HOST:PORT or https://HOST:PORT of a collector that "
        "speaks OTLP over gRPC");
  }
  // A name may also be one of gRPC's schemes, as "unix".
  const bool is_ipv6 = absl::StartsWith(rest, "[");
  endpoint.target = absl::StrCat(is_ipv6 ? "" : "dns:///", rest);
  return endpoint;
}

absl::StatusOr<std::unique_ptr<SpanSender>> NewOtlpSender(
    const OtlpEndpoint& endpoint, const std::string& ca_file,
    const std::string& service) {
  ClientSecurity security;
  if (endpoint.is_tls) {
    security.ca = ca_file.empty() ? ClientSecurity::kSystem : ca_file;
  } else if (!ca_file.empty()) {
    return absl::InvalidArgumentError(
        "--otlp-ca is for a collector with TLS; give --otlp-endpoint as "
        "https://HOST:PORT");
  }
  RETURN_IF_ERROR(CheckClientSecurity(security, endpoint.target));
  return std::make_unique<OtlpSender>(endpoint, security, service);
}

}  // namespace plimsoll::services
