#include "services/wire/generation_from_proto.h"

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/host/random_id.h"
#include "services/wire/from_proto.h"

namespace plimsoll::services {
namespace {

constexpr uint32_t kMaxToken = std::numeric_limits<int32_t>::max();

absl::Status FillStopping(const v1::StoppingOptions& stopping,
                          worker::GenerateOptions& options) {
  if (stopping.stop_strings_size() > worker::GenerateOptions::kMaxStopStrings) {
    return InvalidField(
        "stopping.stop_strings",
        absl::StrCat("has ", stopping.stop_strings_size(), " strings, at most ",
                     worker::GenerateOptions::kMaxStopStrings));
  }
  if (stopping.stop_token_ids_size() >
      worker::GenerateOptions::kMaxStopTokens) {
    return InvalidField(
        "stopping.stop_token_ids",
        absl::StrCat("has ", stopping.stop_token_ids_size(), " ids, at most ",
                     worker::GenerateOptions::kMaxStopTokens));
  }
  options.max_tokens = stopping.max_tokens();
  for (const std::string& text : stopping.stop_strings()) {
    const auto bytes = static_cast<int64_t>(text.size());
    if (bytes == 0 || bytes > worker::GenerateOptions::kMaxStopStringBytes) {
      return InvalidField(
          "stopping.stop_strings",
          absl::StrCat("has one of ", bytes, " bytes, not 1 to ",
                       worker::GenerateOptions::kMaxStopStringBytes));
    }
    options.stop_strings.push_back(text);
  }
  for (const uint32_t id : stopping.stop_token_ids()) {
    if (id > kMaxToken) {
      return InvalidField("stopping.stop_token_ids", "has an id out of range");
    }
    options.stop_tokens.push_back(static_cast<int32_t>(id));
  }
  options.ignore_eos = stopping.ignore_eos();
  return absl::OkStatus();
}

// worker::ValidateLogitBias checks the ranges, because it knows the vocabulary.
absl::Status FillLogitBias(const v1::SamplingOptions& message,
                           worker::LogitBiasOptions& options) {
  if (message.has_repetition_penalty()) {
    options.repetition_penalty = message.repetition_penalty();
  }
  if (message.has_presence_penalty()) {
    options.presence_penalty = message.presence_penalty();
  }
  if (message.has_frequency_penalty()) {
    options.frequency_penalty = message.frequency_penalty();
  }
  if (message.has_penalty_last_tokens()) {
    options.penalty_last_tokens = message.penalty_last_tokens();
  }
  for (const v1::LogitBias& one : message.logit_bias()) {
    if (one.id() > kMaxToken)
      return InvalidField("logit_bias.id", "is too big");
    options.biases.push_back({static_cast<int32_t>(one.id()), one.bias()});
  }
  return absl::OkStatus();
}

absl::StatusOr<worker::RollMethod> RollMethodFrom(absl::string_view field,
                                                  v1::RollMethod method) {
  switch (method) {
    case v1::ROLL_METHOD_UNSPECIFIED:
    case v1::ROLL_METHOD_SHIFT:
      return worker::RollMethod::kShift;
    case v1::ROLL_METHOD_RECOMPUTE:
      return worker::RollMethod::kRecompute;
    default:
      return InvalidField(field, "is not a known method");
  }
}

absl::Status FillTools(const v1::ChatMessage& message,
                       worker::ChatMessage& added) {
  if (!message.tool_name().empty() && message.role() != v1::CHAT_ROLE_TOOL) {
    return InvalidField("chat.messages.tool_name", "is only of role TOOL");
  }
  if (!message.reasoning().empty() &&
      message.role() != v1::CHAT_ROLE_ASSISTANT) {
    return InvalidField("chat.messages.reasoning", "is only of role ASSISTANT");
  }
  added.tool_name = message.tool_name();
  added.reasoning = message.reasoning();
  for (const v1::ToolCall& call : message.tool_calls()) {
    if (!call.error().empty()) {
      return InvalidField("chat.messages.tool_calls",
                          absl::StrCat("has what is no call: ", call.error()));
    }
    added.tool_calls.push_back({call.name(), call.arguments()});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<worker::SamplingOptions> FromProto(
    const v1::SamplingOptions& message) {
  worker::SamplingOptions options;
  if (message.has_temperature()) options.temperature = message.temperature();
  if (message.has_top_k()) {
    if (message.top_k() > kMaxToken)
      return InvalidField("sampling.top_k", "is too big");
    options.top_k = static_cast<int32_t>(message.top_k());
  }
  if (message.has_top_p()) options.top_p = message.top_p();
  if (message.has_typical_p()) options.typical_p = message.typical_p();
  if (message.has_min_p()) options.min_p = message.min_p();
  if (message.has_seed()) options.seed = message.seed();
  RETURN_IF_ERROR(worker::ValidateSampling(options));
  return options;
}

absl::StatusOr<std::vector<worker::ChatMessage>> FromProto(
    const v1::ChatPrompt& message) {
  if (message.messages_size() > worker::kMaxChatMessages) {
    return InvalidField(
        "chat.messages",
        absl::StrCat("has more than ", worker::kMaxChatMessages));
  }
  std::vector<worker::ChatMessage> messages;
  for (const v1::ChatMessage& one : message.messages()) {
    worker::ChatMessage added;
    switch (one.role()) {
      case v1::CHAT_ROLE_SYSTEM:
        added.role = worker::ChatRole::kSystem;
        break;
      case v1::CHAT_ROLE_USER:
        added.role = worker::ChatRole::kUser;
        break;
      case v1::CHAT_ROLE_ASSISTANT:
        added.role = worker::ChatRole::kAssistant;
        break;
      case v1::CHAT_ROLE_TOOL:
        added.role = worker::ChatRole::kTool;
        break;
      default:
        return InvalidField("chat.messages.role", "is not a known role");
    }
    added.content = one.content();
    RETURN_IF_ERROR(FillTools(one, added));
    messages.push_back(std::move(added));
  }
  return messages;
}

absl::StatusOr<worker::GenerateOptions> FromProto(
    const v1::SamplingOptions& sampling, const v1::StoppingOptions& stopping,
    const v1::ResponseOptions& response, v1::ContextPolicy policy) {
  worker::GenerateOptions options;
  ASSIGN_OR_RETURN(options.sampling, FromProto(sampling));
  RETURN_IF_ERROR(FillLogitBias(sampling, options.logit_bias));
  if (sampling.has_draft_tokens()) {
    options.draft_tokens = sampling.draft_tokens();
  }
  RETURN_IF_ERROR(FillStopping(stopping, options));
  if (response.has_top_logprobs()) {
    if (response.top_logprobs() > worker::GenerateOptions::kMaxTopLogprobs) {
      return InvalidField(
          "response.top_logprobs",
          absl::StrCat("is above ", worker::GenerateOptions::kMaxTopLogprobs));
    }
    options.top_logprobs = static_cast<int>(response.top_logprobs());
  }
  options.prompt_logprobs = response.prompt_logprobs();
  switch (policy) {
    case v1::CONTEXT_POLICY_UNSPECIFIED:
    case v1::CONTEXT_POLICY_STOP:
      options.roll.policy = worker::ContextPolicy::kStop;
      break;
    case v1::CONTEXT_POLICY_ERROR:
      options.roll.policy = worker::ContextPolicy::kError;
      break;
    case v1::CONTEXT_POLICY_ROLL:
      options.roll.policy = worker::ContextPolicy::kRoll;
      break;
    default:
      return InvalidField("context_policy", "is not a known policy");
  }
  return options;
}

absl::StatusOr<worker::SessionOptions> FromProto(
    const v1::OpenSessionRequest& request) {
  worker::SessionOptions options;
  options.id = request.session_id().empty() ? RandomId() : request.session_id();
  ASSIGN_OR_RETURN(options.roll_method,
                   RollMethodFrom("roll_method", request.roll_method()));
  if (request.has_evict_to()) options.evict_to = request.evict_to();
  if (!request.has_ttl()) return options;
  const google::protobuf::Duration& ttl = request.ttl();
  if (ttl.nanos() < 0 || ttl.nanos() >= 1'000'000'000) {
    return InvalidField("ttl.nanos", "must be 0 to 999,999,999");
  }
  options.ttl = absl::Seconds(ttl.seconds()) + absl::Nanoseconds(ttl.nanos());
  return options;
}

absl::Status FillRoll(const v1::RollOptions& message,
                      worker::GenerateOptions& options) {
  const bool is_empty = message.method() == v1::ROLL_METHOD_UNSPECIFIED &&
                        !message.has_pin_tokens() && !message.has_evict_to();
  if (is_empty) return absl::OkStatus();
  if (options.roll.policy != worker::ContextPolicy::kRoll) {
    return InvalidField("roll", "means nothing without CONTEXT_POLICY_ROLL");
  }
  ASSIGN_OR_RETURN(options.roll.method,
                   RollMethodFrom("roll.method", message.method()));
  if (message.has_pin_tokens()) options.roll.pin_tokens = message.pin_tokens();
  if (message.has_evict_to()) options.roll.evict_to = message.evict_to();
  return absl::OkStatus();
}

absl::StatusOr<worker::ConstraintSource> SourceFromProto(
    const v1::OutputConstraint& message) {
  using Form = worker::ConstraintSource::Form;
  worker::ConstraintSource source = {.frame = {.trigger = message.trigger()}};
  switch (message.kind_case()) {
    case v1::OutputConstraint::kJsonSchema:
      source.form = Form::kJsonSchema;
      source.text = message.json_schema();
      break;
    case v1::OutputConstraint::kGbnf:
      source.form = Form::kGbnf;
      source.text = message.gbnf();
      break;
    case v1::OutputConstraint::kRegex:
      source.form = Form::kRegex;
      source.text = message.regex();
      break;
    default:
      return InvalidField("constraint", "has no json_schema, gbnf or regex");
  }
  if (message.has_schema_options()) {
    if (source.form != Form::kJsonSchema) {
      return InvalidField("constraint.schema_options",
                          "means nothing without a schema");
    }
    const v1::JsonSchemaOptions& options = message.schema_options();
    source.options = {.closed_objects = options.closed_objects(),
                      .any_order = options.any_order(),
                      .any_spelling = options.any_spelling(),
                      .refuse_unknown = options.refuse_unknown(),
                      .ignore_formats = options.ignore_formats()};
  }
  return source;
}

absl::StatusOr<worker::Constraint> FromProto(
    const v1::OutputConstraint& message, StopCheck stop,
    worker::ConstraintCache* cache) {
  using Form = worker::ConstraintSource::Form;
  ASSIGN_OR_RETURN(const worker::ConstraintSource source,
                   SourceFromProto(message));
  auto constraint = cache != nullptr ? cache->Get(source, stop)
                                     : worker::CompileConstraint(source, stop);
  if (!absl::IsInvalidArgument(constraint.status())) return constraint;
  absl::string_view field = "constraint.regex";
  if (source.form == Form::kJsonSchema) field = "constraint.json_schema";
  if (source.form == Form::kGbnf) field = "constraint.gbnf";
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", constraint.status().message()));
}

}  // namespace plimsoll::services
