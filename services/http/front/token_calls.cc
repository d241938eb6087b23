#include "services/http/front/token_calls.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "services/http/dialects/anthropic_reply.h"
#include "services/http/dialects/anthropic_request.h"
#include "services/http/dialects/chat_messages.h"
#include "services/http/http_errors.h"
#include "services/http/http_models.h"
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

absl::StatusOr<TokenAnswer> ChatIds(HttpModels& models,
                                    const std::string& model,
                                    JsonFields& fields,
                                    const TokenCaller& caller) {
  v1::ApplyChatTemplateRequest request;
  request.set_model(model);
  v1::ChatPrompt& chat = *request.mutable_chat();
  RETURN_IF_ERROR(ReadConversation(fields, chat));
  ASSIGN_OR_RETURN(const auto opens, fields.Bool("add_generation_prompt"));
  chat.set_add_generation_prompt(opens.value_or(true));
  RETURN_IF_ERROR(fields.End());
  return models.Render(request, caller);
}

absl::StatusOr<TokenAnswer> TextIds(HttpModels& models,
                                    const std::string& model,
                                    JsonFields& fields,
                                    const TokenCaller& caller) {
  v1::TokenizeRequest request;
  request.set_model(model);
  RETURN_IF_ERROR(ReadText(fields, request));
  RETURN_IF_ERROR(fields.End());
  return models.Tokenize(request, caller);
}

absl::StatusOr<Json> TokenizeFields(HttpModels& models, JsonFields& fields,
                                    const TokenCaller& caller) {
  ASSIGN_OR_RETURN(const auto name, fields.Text("model"));
  const std::string model = name.value_or("");
  const bool is_chat = fields.Find("messages") != nullptr;
  ASSIGN_OR_RETURN(const TokenAnswer answer,
                   is_chat ? ChatIds(models, model, fields, caller)
                           : TextIds(models, model, fields, caller));
  Json json;
  json["tokens"] = answer.ids;
  json["count"] = answer.ids.size();
  json["max_model_len"] = answer.n_ctx;
  return json;
}

absl::StatusOr<Json> DetokenizeFields(HttpModels& models, JsonFields& fields,
                                      const TokenCaller& caller) {
  ASSIGN_OR_RETURN(const auto name, fields.Text("model"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> ids,
                   fields.Ints("tokens", 0, kMaxId));
  RETURN_IF_ERROR(fields.End());
  v1::DetokenizeRequest request;
  request.set_model(name.value_or(""));
  for (const int64_t id : ids) request.add_ids(ToUint32(id));
  request.set_render_special(true);
  ASSIGN_OR_RETURN(const TokenAnswer answer,
                   models.Detokenize(request, caller));
  Json json;
  json["prompt"] = answer.text;
  json["content"] = answer.text;
  return json;
}

absl::StatusOr<Json> CountFields(HttpModels& models, JsonFields& fields,
                                 const TokenCaller& caller) {
  v1::StreamGenerateRequest request;
  RETURN_IF_ERROR(ReadMessagesToCount(fields, request));
  v1::ApplyChatTemplateRequest rendered;
  rendered.set_model(request.model());
  rendered.mutable_chat()->Swap(request.mutable_chat());
  ASSIGN_OR_RETURN(const TokenAnswer answer, models.Render(rendered, caller));
  Json json;
  json["input_tokens"] = answer.ids.size();
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
