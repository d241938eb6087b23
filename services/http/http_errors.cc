#include "services/http/http_errors.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/json.h"
#include "services/http/json.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

// Messages of plimsoll.v1 group their fields, and those of HTTP do not.
absl::string_view WithoutGroup(absl::string_view message) {
  for (const char* group : {"sampling.", "stopping.", "response.", "chat."}) {
    absl::ConsumePrefix(&message, group);
  }
  return message;
}

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
         c == '.' || c == '[' || c == ']';
}

// The field that a message begins with, or "".
std::string FieldOf(absl::string_view message) {
  const size_t end = message.find_first_of(": ");
  if (end == absl::string_view::npos || message[end] != ':') return "";
  const absl::string_view name = message.substr(0, end);
  if (!std::all_of(name.begin(), name.end(), IsNameCharacter)) return "";
  return std::string(name);
}

std::string CodeOf(const absl::Status& status) {
  switch (DetailsOf(status).reason) {
    case v1::ERROR_REASON_PROMPT_TOO_LONG:
    case v1::ERROR_REASON_CONTEXT_FULL:
      return "context_length_exceeded";
    case v1::ERROR_REASON_MODEL_NOT_FOUND:
      return "model_not_found";
    case v1::ERROR_REASON_INVALID_FIELD:
      return "invalid_value";
    case v1::ERROR_REASON_UNSPECIFIED:
      return "";
    default:
      break;
  }
  absl::string_view name = v1::ErrorReason_Name(DetailsOf(status).reason);
  absl::ConsumePrefix(&name, "ERROR_REASON_");
  return absl::AsciiStrToLower(name);
}

absl::string_view TypeOf(int http_status) {
  if (http_status == 429) return "rate_limit_error";
  if (http_status == 404) return "not_found_error";
  if (http_status == 403) return "permission_error";
  if (http_status == 401) return "authentication_error";
  return http_status < 500 ? "invalid_request_error" : "server_error";
}

Json OrNull(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

std::string BodyOf(int http_status, absl::string_view message,
                   const std::string& param, const std::string& code) {
  Json error;
  error["message"] = std::string(message);
  error["type"] = std::string(TypeOf(http_status));
  error["param"] = OrNull(param);
  error["code"] = OrNull(code);
  Json body;
  body["error"] = std::move(error);
  return Dump(body);
}

}  // namespace

int HttpStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:  // clients would try a 5xx again
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kResourceExhausted:
      return DetailsOf(status).retry_after.has_value() ? 429 : 413;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

std::string ErrorMessage(const absl::Status& status) {
  const std::string safe = WithoutSecrets(status.message());
  return std::string(WithoutGroup(safe));
}

std::string ErrorBody(const absl::Status& status) {
  const std::string message = ErrorMessage(status);
  const int http_status = HttpStatusOf(status);
  const bool is_of_request = http_status == 400 || http_status == 404;
  return BodyOf(http_status, message, is_of_request ? FieldOf(message) : "",
                CodeOf(status));
}

HttpResponse ErrorResponse(const absl::Status& status) {
  HttpResponse response{.status = HttpStatusOf(status),
                        .body = ErrorBody(status)};
  if (const auto delay = DetailsOf(status).retry_after) {
    const int64_t seconds =
        absl::ToInt64Seconds(*delay + absl::Milliseconds(999));
    response.headers.emplace_back("Retry-After", absl::StrCat(seconds));
  }
  return response;
}

HttpResponse ErrorResponse(int status, absl::string_view message) {
  return {.status = status, .body = BodyOf(status, message, "", "")};
}

HttpResponse WrongMethod(const std::string& allowed) {
  HttpResponse response =
      ErrorResponse(405, absl::StrCat("this path takes ", allowed));
  response.headers.emplace_back("Allow", allowed);
  return response;
}

}  // namespace plimsoll::services
