#include "services/gateway/worker_answers.h"

#include <grpcpp/client_context.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/http/http_message.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

// How often a call that waits looks whether its client is still there.
constexpr absl::Duration kStopPoll = absl::Milliseconds(50);

constexpr absl::Duration kGoneRetry = absl::Seconds(1);

// Appends as much of `text` as there is room for.
void AppendTo(absl::string_view text, std::string& key) {
  absl::StrAppend(&key, text.substr(0, kMostKeyBytes - key.size()));
}

}  // namespace

bool IsGone(const grpc::Status& status) {
  if (!status.error_details().empty()) return false;
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::INTERNAL:  // the stream was reset
    case grpc::StatusCode::UNKNOWN:   // the same
      return true;
    default:
      return false;
  }
}

bool MayDoBetter(const grpc::Status& status) {
  if (IsGone(status)) return true;
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) return true;
  return DetailsOf(FromGrpc(status)).reason ==
         v1::ERROR_REASON_MODEL_NOT_LOADED;
}

absl::Status StatusOfAnswer(const grpc::Status& status) {
  if (!IsGone(status)) return FromGrpc(status);
  return WithDetails(
      absl::UnavailableError("the worker of this request is gone"),
      {v1::ERROR_REASON_MODEL_NOT_READY, {}, kGoneRetry});
}

void AddCaller(const HttpRequest& request, grpc::ClientContext& context) {
  context.AddMetadata("x-request-id", request.request_id);
  if (!request.tenant.empty()) context.AddMetadata("x-tenant", request.tenant);
}

absl::Status AwaitAnswer(SteadyNotification& done, grpc::ClientContext& context,
                         StopCheck stop) {
  absl::Status stopped;
  while (!done.WaitFor(kStopPoll)) {
    stopped = stop();
    if (!stopped.ok()) context.TryCancel();
  }
  return stopped;
}

std::string PrefixKey(const v1::StreamGenerateRequest& request) {
  std::string key;
  for (const v1::ChatMessage& message : request.chat().messages()) {
    // What follows may differ where the work is the same.
    if (key.size() >= kLeastKeyBytes) break;
    AppendTo(absl::StrCat(static_cast<int>(message.role()), ":"), key);
    AppendTo(message.content(), key);
  }
  AppendTo(request.text().text(), key);
  for (const uint32_t id : request.tokens().ids()) {
    if (key.size() == kMostKeyBytes) break;
    AppendTo(absl::StrCat(id, " "), key);
  }
  if (key.size() < kLeastKeyBytes) return "";
  if (!request.has_chat() && key.size() < kMostKeyBytes) {
    key.resize(kLeastKeyBytes);
  }
  return absl::StrCat("prefix ", request.model(), " ", key);
}

absl::Status CheckTokens(const v1::StreamGenerateRequest& request,
                         const v1::StreamGenerateResponse& message) {
  if (!request.response().token_bytes()) return absl::OkStatus();
  for (const v1::GeneratedToken& token : message.tokens()) {
    if (token.has_text_bytes()) continue;
    return absl::UnimplementedError(
        "logprobs: the worker sends no bytes of tokens; it has an earlier "
        "version than the gateway");
  }
  return absl::OkStatus();
}

void AppendMessage(v1::StreamGenerateResponse& message,
                   v1::StreamGenerateResponse& all) {
  std::string text = std::move(*all.mutable_text());
  std::string reasoning = std::move(*all.mutable_reasoning());
  text += message.text();
  reasoning += message.reasoning();
  all.MergeFrom(message);
  *all.mutable_text() = std::move(text);
  *all.mutable_reasoning() = std::move(reasoning);
}

}  // namespace plimsoll::services
