#include "services/http/token_calls.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "services/generation/message_bytes.h"
#include "services/generation/prompt.h"
#include "services/generation/tokenize.h"
#include "services/http/dialects/anthropic_reply.h"
#include "services/http/dialects/anthropic_request.h"
#include "services/http/dialects/chat_messages.h"
#include "services/http/http_errors.h"
#include "services/http/json.h"
#include "services/http/json_call.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

constexpr int64_t kMaxId = std::numeric_limits<int32_t>::max();

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
  AnswerJson(room, {TokenizeFields, ErrorResponse}, std::move(request),
             std::move(reply));
}

void AnswerDetokenize(const HttpRoom& room, HttpRequest request,
                      std::shared_ptr<HttpReply> reply) {
  AnswerJson(room, {DetokenizeFields, ErrorResponse}, std::move(request),
             std::move(reply));
}

void AnswerCountTokens(const HttpRoom& room, HttpRequest request,
                       std::shared_ptr<HttpReply> reply) {
  AnswerJson(room, {CountFields, AnthropicError}, std::move(request),
             std::move(reply));
}

}  // namespace plimsoll::services
