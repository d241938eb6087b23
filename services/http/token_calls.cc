#include "services/http/token_calls.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/generation/message_bytes.h"
#include "services/generation/prompt.h"
#include "services/generation/tokenize.h"
#include "services/http/dialects/anthropic_reply.h"
#include "services/http/dialects/anthropic_request.h"
#include "services/http/dialects/chat_messages.h"
#include "services/http/http_errors.h"
#include "services/http/json.h"
#include "services/server/server.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

constexpr int64_t kMaxId = std::numeric_limits<int32_t>::max();

// Answers the fields of a body.
using Answer = absl::StatusOr<Json> (*)(const HttpRoom& room,
                                        JsonFields& fields, StopCheck stop,
                                        ByteBudget::Share& held);

// How a path answers a body, and how it says that it cannot.
struct TokenPath {
  Answer answer;
  ErrorWriter error;
};

// A request that waits for its answer.
struct TokenCall {
  HttpRoom room;
  TokenPath path;
  HttpRequest request;
  std::shared_ptr<HttpReply> reply;
  CallGate::Pass pass = {};
  std::shared_ptr<CallStop> stop =
      std::make_shared<CallStop>(absl::Now() + kUnaryDeadline);
};

absl::StatusOr<Json> Run(TokenCall& call) {
  ByteBudget::Share& held = call.request.held;
  const auto n_bytes = static_cast<int64_t>(call.request.body.size());
  RETURN_IF_ERROR(held.Grow(kJsonPerByte * n_bytes));
  ASSIGN_OR_RETURN(const Json body, ReadBody(call.request.body));
  ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(body));
  ByteBudget::Share work =
      call.room.registry.messages().Enter(call.request.peer);
  return call.path.answer(
      call.room, fields, [&call] { return call.stop->Check(); }, work);
}

void Start(const HttpRoom& room, HttpRequest request,
           std::shared_ptr<HttpReply> reply, const TokenPath& path) {
  const size_t n_bytes = request.body.size();
  const auto call = std::make_shared<TokenCall>(
      TokenCall{room, path, std::move(request), std::move(reply)});
  const auto work = [call](const absl::Status& queued) {
    auto json = queued.ok() ? Run(*call) : queued;
    call->reply->Send(json.ok() ? HttpResponse{.body = Dump(*json)}
                                : call->path.error(json.status()));
  };
  auto pass = room.gate.Enter();
  if (!pass.ok()) return work(pass.status());
  call->pass = *std::move(pass);
  if (n_bytes <= kMaxInlineBytes) return work(absl::OkStatus());
  call->reply->OnGone(
      [stop = call->stop, &pool = room.pool] { pool.Cancel(*stop); });
  const absl::Status queued = room.pool.Submit(
      {.peer = call->request.peer,
       .cost = n_bytes <= kMaxQuickBytes ? WorkCost::kQuick : WorkCost::kLong,
       .stop = call->stop,
       .work = work,
       .request_bytes = n_bytes});
  if (!queued.ok()) work(queued);
}

// The text is "prompt" (vLLM) or "content" (llama.cpp).
absl::Status ReadText(JsonFields& fields, v1::TokenizeRequest& request) {
  ASSIGN_OR_RETURN(const auto prompt, fields.Text("prompt"));
  ASSIGN_OR_RETURN(const auto content, fields.Text("content"));
  if (prompt.has_value() == content.has_value()) {
    return fields.Bad("prompt", "give one of prompt, content and messages");
  }
  ASSIGN_OR_RETURN(const auto vllm_special, fields.Bool("add_special_tokens"));
  ASSIGN_OR_RETURN(const auto special, fields.Bool("add_special"));
  ASSIGN_OR_RETURN(const auto parse, fields.Bool("parse_special"));
  request.set_text(prompt.value_or(content.value_or("")));
  request.set_add_bos(
      special.value_or(vllm_special.value_or(prompt.has_value())));
  request.set_parse_special(parse.value_or(true));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> ChatIds(const ServedModel& model,
                                             JsonFields& fields,
                                             StopCheck stop) {
  v1::ChatPrompt chat;
  RETURN_IF_ERROR(ReadConversation(fields, chat));
  ASSIGN_OR_RETURN(const auto opens, fields.Bool("add_generation_prompt"));
  chat.set_add_generation_prompt(opens.value_or(true));
  RETURN_IF_ERROR(fields.End());
  ASSIGN_OR_RETURN(Prompt prompt, FromChat(model, chat, {.stop = stop}));
  return std::move(prompt.ids);
}

absl::StatusOr<std::vector<int32_t>> TextIds(const ServedModel& model,
                                             JsonFields& fields, StopCheck stop,
                                             ByteBudget::Share& held) {
  v1::TokenizeRequest request;
  RETURN_IF_ERROR(ReadText(fields, request));
  RETURN_IF_ERROR(fields.End());
  v1::TokenizeResponse response;
  RETURN_IF_ERROR(Tokenize(model, request, stop, held, response));
  return std::vector<int32_t>(response.ids().begin(), response.ids().end());
}

absl::StatusOr<Json> TokenizeFields(const HttpRoom& room, JsonFields& fields,
                                    StopCheck stop, ByteBudget::Share& held) {
  ASSIGN_OR_RETURN(const auto name, fields.Text("model"));
  ASSIGN_OR_RETURN(const ServedModel model,
                   room.registry.Serve(name.value_or("")));
  const bool is_chat = fields.Find("messages") != nullptr;
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                   is_chat ? ChatIds(model, fields, stop)
                           : TextIds(model, fields, stop, held));
  Json json;
  json["tokens"] = ids;
  json["count"] = ids.size();
  json["max_model_len"] = model.engine->n_ctx();
  return json;
}

absl::StatusOr<Json> DetokenizeFields(const HttpRoom& room, JsonFields& fields,
                                      StopCheck stop, ByteBudget::Share& held) {
  ASSIGN_OR_RETURN(const auto name, fields.Text("model"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> ids,
                   fields.Ints("tokens", 0, kMaxId));
  RETURN_IF_ERROR(fields.End());
  ASSIGN_OR_RETURN(const ServedModel model,
                   room.registry.Serve(name.value_or("")));
  v1::DetokenizeRequest request;
  for (const int64_t id : ids) request.add_ids(ToUint32(id));
  request.set_render_special(true);
  v1::DetokenizeResponse response;
  RETURN_IF_ERROR(Detokenize(model, request, stop, held, response));
  Json json;
  json["prompt"] = response.text();
  json["content"] = response.text();
  return json;
}

absl::StatusOr<Json> CountFields(const HttpRoom& room, JsonFields& fields,
                                 StopCheck stop, ByteBudget::Share& held) {
  v1::StreamGenerateRequest request;
  RETURN_IF_ERROR(ReadMessagesToCount(fields, request));
  ASSIGN_OR_RETURN(const ServedModel model,
                   room.registry.Serve(request.model()));
  RETURN_IF_ERROR(held.Grow(WorkBytes(request)));
  ASSIGN_OR_RETURN(const Prompt prompt,
                   FromChat(model, request.chat(), {.stop = stop}));
  Json json;
  json["input_tokens"] = prompt.ids.size();
  return json;
}

}  // namespace

void AnswerTokenize(const HttpRoom& room, HttpRequest request,
                    std::shared_ptr<HttpReply> reply) {
  Start(room, std::move(request), std::move(reply),
        {TokenizeFields, ErrorResponse});
}

void AnswerDetokenize(const HttpRoom& room, HttpRequest request,
                      std::shared_ptr<HttpReply> reply) {
  Start(room, std::move(request), std::move(reply),
        {DetokenizeFields, ErrorResponse});
}

void AnswerCountTokens(const HttpRoom& room, HttpRequest request,
                       std::shared_ptr<HttpReply> reply) {
  Start(room, std::move(request), std::move(reply),
        {CountFields, AnthropicError});
}

}  // namespace plimsoll::services
