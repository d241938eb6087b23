#include "services/generation/open_session.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/generation/call_errors.h"
#include "services/generation/message_bytes.h"
#include "services/generation/prompt.h"
#include "services/generation/quota_book.h"
#include "services/generation/rendered_session.h"
#include "services/wire/generation_from_proto.h"
#include "services/wire/generation_to_proto.h"

namespace plimsoll::services {
namespace {

using worker::SessionOptions;

// Sets how the session's chat is rendered, with its system message. A session
// that cannot keep its context keeps texts.
absl::Status SetFrame(const ServedModel& model,
                      const v1::OpenSessionRequest& request,
                      const worker::EncodeLimits& limits,
                      SessionOptions& options) {
  const worker::Tokenizer& tokenizer = model.engine->tokenizer();
  const std::string* system =
      request.has_system() ? &request.system() : nullptr;
  const auto keep_texts = [&](std::string reason) {
    return KeepTexts(model, request, {std::move(reason), limits.stop}, options);
  };
  if (!request.has_chat_format() && UsesOwnTemplate(model)) {
    if (request.tools_size() > 0) {
      return keep_texts("it has tools");
    }
    if (!request.template_arguments().empty()) {
      return keep_texts("it has template_arguments");
    }
    auto frame = worker::TemplateFrame::Find(tokenizer, model.own_template,
                                             {system, absl::Now()}, limits);
    if (absl::IsUnimplemented(frame.status())) {
      return keep_texts(std::string(frame.status().message()));
    }
    RETURN_IF_ERROR(frame.status());
    options.own_frame = *std::move(frame);
    options.frame = options.own_frame->ids();
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(
      const worker::ChatFormatChoice choice,
      ChooseFormat(
          model, request.has_chat_format() ? &request.chat_format() : nullptr));
  options.format = choice.format;
  if (request.tools_size() > 0) {
    return keep_texts("it has tools");
  }
  ASSIGN_OR_RETURN(options.frame, worker::EncodeFrame(tokenizer, choice.format,
                                                      system, limits));
  return absl::OkStatus();
}

// A turn as tokens. A reply of ids is taken as it is, but for the end token at
// its end, which the chat's frame has too. A model's own template renders a
// reply of text together with its message.
absl::StatusOr<worker::SessionTurn> TurnFrom(
    const v1::SessionTurn& turn, const SessionOptions& options,
    const worker::Tokenizer& tokenizer, const worker::EncodeLimits& limits) {
  worker::SessionTurn result;
  if (options.own_frame != nullptr && turn.has_text()) {
    ASSIGN_OR_RETURN(result.content,
                     options.own_frame->EncodeTurn(tokenizer, turn.message(),
                                                   turn.text(), limits));
    return result;
  }
  ASSIGN_OR_RETURN(result.content,
                   EncodeMessage(options, tokenizer, turn.message(), limits));
  if (turn.has_text()) {
    ASSIGN_OR_RETURN(
        result.reply,
        worker::EncodeContent(tokenizer, options.format, turn.text(), limits));
    return result;
  }
  for (const uint32_t id : turn.tokens().ids()) {
    if (id >= static_cast<uint32_t>(tokenizer.vocab_size())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "turns.tokens.ids: ", id, " is outside the vocabulary of ",
          tokenizer.vocab_size(), " tokens"));
    }
    result.reply.push_back(static_cast<int32_t>(id));
  }
  if (!result.reply.empty() && tokenizer.IsEnd(result.reply.back())) {
    result.reply.pop_back();
  }
  return result;
}

absl::Status CheckTurns(const v1::OpenSessionRequest& request) {
  if (request.turns_size() > SessionOptions::kMaxTurns) {
    return absl::InvalidArgumentError(
        absl::StrCat("turns: at most ", SessionOptions::kMaxTurns,
                     " are allowed, got ", request.turns_size()));
  }
  for (const v1::SessionTurn& turn : request.turns()) {
    if (turn.message().empty()) {
      return absl::InvalidArgumentError("turns.message: it is empty");
    }
  }
  return absl::OkStatus();
}

// The newest turns of a request, and no more of them than a context could hold.
absl::StatusOr<std::vector<worker::SessionTurn>> TurnsFrom(
    const v1::OpenSessionRequest& request, const SessionOptions& options,
    const worker::Engine& engine, StopCheck stop) {
  std::vector<worker::SessionTurn> turns;
  int64_t n_tokens = 0;
  for (int i = request.turns_size() - 1; i >= 0 && n_tokens <= engine.n_ctx();
       --i) {
    ASSIGN_OR_RETURN(worker::SessionTurn turn,
                     TurnFrom(request.turns(i), options, engine.tokenizer(),
                              {.stop = stop}));
    n_tokens += static_cast<int64_t>(turn.content.size() + turn.reply.size());
    turns.push_back(std::move(turn));
  }
  std::reverse(turns.begin(), turns.end());
  return turns;
}

// Errors: kResourceExhausted if the tenant's quota allows no more sessions.
absl::Status CheckSessions(const ServedModel& model,
                           const std::string& tenant) {
  if (model.quotas == nullptr) return absl::OkStatus();
  const std::optional<int64_t> most = model.quotas->QuotaOf(tenant).sessions;
  if (!most.has_value()) return absl::OkStatus();
  const auto n_open =
      static_cast<int64_t>(model.engine->Sessions(tenant).size());
  if (n_open < *most) return absl::OkStatus();
  return QuotaRefusal({"sessions", *most, n_open, 1});
}

}  // namespace

absl::StatusOr<v1::Session> OpenSession(const ServedModel& model,
                                        const Caller& caller,
                                        const v1::OpenSessionRequest& request) {
  RETURN_IF_ERROR(caller.held.Grow(WorkBytes(request)));
  const worker::EncodeLimits limits = {.max_tokens = model.engine->n_ctx(),
                                       .stop = caller.stop};
  ASSIGN_OR_RETURN(SessionOptions options, FromProto(request));
  RETURN_IF_ERROR(CheckTurns(request));
  absl::Status framed = SetFrame(model, request, limits, options);
  if (!framed.ok()) return EncodeStatus(std::move(framed), limits);
  if (options.chat == nullptr) {
    ASSIGN_OR_RETURN(options.turns,
                     TurnsFrom(request, options, *model.engine, caller.stop));
  }
  RETURN_IF_ERROR(CheckSessions(model, caller.claim.tenant));
  options.owner = caller.claim.tenant;
  options.peer = caller.claim.peer;
  const auto info = model.engine->OpenSession(std::move(options));
  if (!info.ok()) return SessionStatus(info.status());
  return DescribeSession(model, *info);
}

v1::Session DescribeSession(const ServedModel& model,
                            const worker::SessionInfo& info) {
  v1::Session message = ToProto(info);
  message.set_model(model.name);
  return message;
}

}  // namespace plimsoll::services
