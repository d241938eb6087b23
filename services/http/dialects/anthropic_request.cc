#include "services/http/dialects/anthropic_request.h"

#include <utility>

#include "base/status_macros.h"
#include "services/http/dialects/anthropic_messages.h"
#include "services/http/request_fields.h"

namespace plimsoll::services {
namespace {

using Request = v1::StreamGenerateRequest;

// "adaptive" leaves it to the model whether it thinks.
absl::Status ReadThinking(JsonFields& fields, Request& request) {
  const Json* given = fields.Find("thinking");
  if (given == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(JsonFields thinking, JsonFields::Of(*given, "thinking."));
  ASSIGN_OR_RETURN(const auto type, thinking.Text("type"));
  if (type != "disabled" && type != "adaptive" && type != "enabled") {
    return thinking.Bad("type", "must be enabled, disabled or adaptive");
  }
  if (type != "adaptive") {
    AddTemplateArgument("enable_thinking", type == "enabled",
                        *request.mutable_chat());
  }
  RETURN_IF_ERROR(
      ReadThoughtLimit(thinking, "budget_tokens", *request.mutable_stopping()));
  thinking.Ignore({"display"});
  return thinking.End();
}

absl::Status ReadOutput(JsonFields& fields, Request& request) {
  const Json* given = fields.Find("output_config");
  if (given == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(JsonFields output, JsonFields::Of(*given, "output_config."));
  output.Ignore({"effort"});
  const Json* wrapped = output.Find("format");
  RETURN_IF_ERROR(output.End());
  if (wrapped == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(JsonFields format,
                   JsonFields::Of(*wrapped, "output_config.format."));
  ASSIGN_OR_RETURN(const auto type, format.Text("type"));
  if (type != "json_schema") return format.Bad("type", "must be json_schema");
  const Json* schema = format.Find("schema");
  if (schema == nullptr) return format.Bad("schema", "is missing");
  request.mutable_constraint()->set_json_schema(Dump(*schema));
  RETURN_IF_ERROR(ReadSchemaOptions(format, request));
  return format.End();
}

// Reads what both paths take.
absl::Status ReadCommon(JsonFields& fields, Request& request) {
  ASSIGN_OR_RETURN(const auto model, fields.Text("model"));
  request.set_model(model.value_or(""));
  RETURN_IF_ERROR(ReadAnthropicConversation(fields, *request.mutable_chat()));
  RETURN_IF_ERROR(ReadThinking(fields, request));
  RETURN_IF_ERROR(ReadOutput(fields, request));
  // They are about caches, accounts and prices: this server keeps prefixes by
  // itself and has neither of the others.
  fields.Ignore({"cache_control", "speed", "user_profile_id", "workspace_id"});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TextJob> ReadMessages(const Json& body) {
  ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(body));
  TextJob job;
  Request request;
  RETURN_IF_ERROR(ReadCommon(fields, request));
  const auto& messages = request.chat().messages();
  if (messages[messages.size() - 1].role() == v1::CHAT_ROLE_ASSISTANT) {
    return fields.Bad("messages",
                      "end with the assistant's: this server does not continue "
                      "a reply");
  }
  RETURN_IF_ERROR(ReadDraw(fields, *request.mutable_sampling()));
  RETURN_IF_ERROR(SetRandomSeed(*request.mutable_sampling()));
  ASSIGN_OR_RETURN(const auto tokens, fields.Int("max_tokens", 1, kMaxCount));
  if (!tokens.has_value()) return fields.Bad("max_tokens", "is missing");
  request.mutable_stopping()->set_max_tokens(static_cast<uint32_t>(*tokens));
  RETURN_IF_ERROR(
      ReadStops(fields, "stop_sequences", *request.mutable_stopping()));
  ASSIGN_OR_RETURN(const auto stream, fields.Bool("stream"));
  job.is_streamed = stream.value_or(false);
  RETURN_IF_ERROR(fields.AllowOnly("container", nullptr,
                                   "is not there: nothing runs here"));
  fields.Ignore({"diagnostics", "inference_geo", "metadata", "service_tier"});
  RETURN_IF_ERROR(fields.End());
  job.prompts.push_back(std::move(request));
  return job;
}

absl::Status ReadMessagesToCount(JsonFields& fields,
                                 v1::StreamGenerateRequest& request) {
  RETURN_IF_ERROR(ReadCommon(fields, request));
  return fields.End();
}

}  // namespace plimsoll::services
