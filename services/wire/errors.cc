#include "services/wire/errors.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace plimsoll::services {
namespace {

constexpr absl::string_view kTypePrefix = "type.googleapis.com/";
constexpr absl::string_view kInfoUrl =
    "type.googleapis.com/google.rpc.ErrorInfo";
constexpr absl::string_view kRetryUrl =
    "type.googleapis.com/google.rpc.RetryInfo";
constexpr absl::string_view kReasonPrefix = "ERROR_REASON_";

std::string ReasonText(v1::ErrorReason reason) {
  absl::string_view name = v1::ErrorReason_Name(reason);
  absl::ConsumePrefix(&name, kReasonPrefix);
  return std::string(name);
}

// The reason that a code implies if no details were attached.
v1::ErrorReason DefaultReason(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return v1::ERROR_REASON_INVALID_FIELD;
    case absl::StatusCode::kCancelled:
      return v1::ERROR_REASON_CANCELLED;
    case absl::StatusCode::kAborted:
      return v1::ERROR_REASON_ABORTED;
    case absl::StatusCode::kDeadlineExceeded:
      return v1::ERROR_REASON_DEADLINE_EXCEEDED;
    case absl::StatusCode::kResourceExhausted:
      return v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED;
    case absl::StatusCode::kUnavailable:
      return v1::ERROR_REASON_DRAINING;
    case absl::StatusCode::kUnimplemented:
      return v1::ERROR_REASON_UNSUPPORTED_MODEL;
    case absl::StatusCode::kDataLoss:
      return v1::ERROR_REASON_BAD_MODEL_FILE;
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return v1::ERROR_REASON_INTERNAL;
    default:
      return v1::ERROR_REASON_UNSPECIFIED;
  }
}

google::rpc::ErrorInfo InfoOf(const ErrorDetails& details) {
  google::rpc::ErrorInfo info;
  info.set_reason(ReasonText(details.reason));
  info.set_domain(std::string(kErrorDomain));
  for (const auto& [key, value] : details.metadata) {
    (*info.mutable_metadata())[key] = WithoutSecrets(value);
  }
  return info;
}

google::rpc::RetryInfo RetryOf(absl::Duration delay) {
  google::rpc::RetryInfo retry;
  const int64_t nanos = absl::ToInt64Nanoseconds(delay);
  retry.mutable_retry_delay()->set_seconds(nanos / 1'000'000'000);
  retry.mutable_retry_delay()->set_nanos(
      static_cast<int32_t>(nanos % 1'000'000'000));
  return retry;
}

bool IsWordBreak(char c) {
  return absl::ascii_isspace(static_cast<unsigned char>(c)) || c == '"' ||
         c == '\'' || c == '(' || c == ')' || c == ',' || c == ';' || c == '=';
}

bool IsPath(absl::string_view word) {
  return word.size() > 1 &&
         (word[0] == '/' || absl::StartsWith(word, "~/") ||
          absl::StartsWith(word, "./") || absl::StartsWith(word, "../") ||
          absl::StartsWith(word, "file:/"));
}

bool IsAddress(absl::string_view word) {
  return absl::StartsWith(word, "0x") && word.size() >= 8;
}

}  // namespace

absl::Status WithDetails(absl::Status status, const ErrorDetails& details) {
  if (status.ok()) return status;
  status.SetPayload(kInfoUrl, absl::Cord(InfoOf(details).SerializeAsString()));
  if (details.retry_after.has_value()) {
    status.SetPayload(
        kRetryUrl,
        absl::Cord(RetryOf(*details.retry_after).SerializeAsString()));
  }
  return status;
}

absl::Status NoSuchDevice(absl::Status status, const std::string& id) {
  return WithDetails(
      std::move(status),
      {v1::ERROR_REASON_DEVICE_NOT_FOUND, {{"device_id", id}}, std::nullopt});
}

bool HasDetails(const absl::Status& status) {
  return status.GetPayload(kInfoUrl).has_value();
}

ErrorDetails DetailsOf(const absl::Status& status) {
  ErrorDetails details;
  details.reason = DefaultReason(status.code());
  if (const auto payload = status.GetPayload(kInfoUrl)) {
    google::rpc::ErrorInfo info;
    if (info.ParseFromString(std::string(*payload))) {
      v1::ErrorReason reason = v1::ERROR_REASON_UNSPECIFIED;
      v1::ErrorReason_Parse(absl::StrCat(kReasonPrefix, info.reason()),
                            &reason);
      details.reason = reason;
      details.metadata.insert(info.metadata().begin(), info.metadata().end());
    }
  }
  if (const auto payload = status.GetPayload(kRetryUrl)) {
    google::rpc::RetryInfo retry;
    if (retry.ParseFromString(std::string(*payload))) {
      details.retry_after = absl::Seconds(retry.retry_delay().seconds()) +
                            absl::Nanoseconds(retry.retry_delay().nanos());
    }
  }
  return details;
}

grpc::Status ToGrpc(const absl::Status& status, absl::string_view request_id) {
  if (status.ok()) return grpc::Status::OK;
  ErrorDetails details = DetailsOf(status);
  if (!request_id.empty()) {
    details.metadata["request_id"] = std::string(request_id);
  }
  const std::string message = WithoutSecrets(status.message());
  google::rpc::Status wire;
  wire.set_code(static_cast<int>(status.code()));
  wire.set_message(message);
  wire.add_details()->PackFrom(InfoOf(details));
  if (details.retry_after.has_value()) {
    wire.add_details()->PackFrom(RetryOf(*details.retry_after));
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message,
                      wire.SerializeAsString());
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
  google::rpc::Status wire;
  if (!wire.ParseFromString(status.error_details())) return result;
  for (const google::protobuf::Any& detail : wire.details()) {
    if (!absl::StartsWith(detail.type_url(), kTypePrefix)) continue;
    result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return result;
}

std::string WithoutSecrets(absl::string_view text) {
  std::string result;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && !IsWordBreak(text[i])) continue;
    const absl::string_view word = text.substr(start, i - start);
    if (IsPath(word)) {
      // The text after the path ("FILE: no such file") stays readable.
      absl::StrAppend(&result, "<path>", absl::EndsWith(word, ":") ? ":" : "");
    } else if (IsAddress(word)) {
      absl::StrAppend(&result, "<address>");
    } else {
      absl::StrAppend(&result, word);
    }
    if (i < text.size()) result.push_back(text[i]);
    start = i + 1;
  }
  return result;
}

}  // namespace plimsoll::services
