#include "services/http/dialects/openai_request.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "services/http/dialects/chat_messages.h"
#include "services/http/request_fields.h"

namespace plimsoll::services {
namespace {

using Request = v1::StreamGenerateRequest;

// A bias of -kMaxBias forbids a token, as in OpenAI's own service.
constexpr double kMaxBias = 100;
constexpr float kForbidden = -1'000;
// Accepted and without effect, for both kinds of request: they are about
// accounts and storage, which this server has not.
constexpr absl::string_view kIgnored[] = {"user",
                                          "metadata",
                                          "store",
                                          "service_tier",
                                          "safety_identifier",
                                          "prompt_cache_key",
                                          "prompt_cache_retention"};

absl::Status ReadLogitBias(JsonFields& fields, v1::SamplingOptions& sampling) {
  const Json* given = fields.Find("logit_bias");
  if (given == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(JsonFields biases, JsonFields::Of(*given, "logit_bias."));
  for (const auto& [key, value] : given->items()) {
    uint32_t id = 0;
    if (!absl::SimpleAtoi(key, &id)) {
      return biases.Bad(key, "is not the id of a token");
    }
    ASSIGN_OR_RETURN(const auto bias, biases.Number(key, -kMaxBias, kMaxBias));
    v1::LogitBias& added = *sampling.add_logit_bias();
    added.set_id(id);
    const double number = bias.value_or(0);
    added.set_bias(number == -kMaxBias ? kForbidden
                                       : static_cast<float>(number));
  }
  return absl::OkStatus();
}

absl::Status ReadSampling(JsonFields& fields, v1::SamplingOptions& sampling) {
  RETURN_IF_ERROR(ReadDraw(fields, sampling));
  RETURN_IF_ERROR(ReadFilters(fields, sampling));
  RETURN_IF_ERROR(ReadRepetition(fields, "repetition_penalty", sampling));
  RETURN_IF_ERROR(ReadSeed(fields, sampling));
  return ReadLogitBias(fields, sampling);
}

absl::Status ReadStopping(JsonFields& fields, v1::StoppingOptions& stopping) {
  ASSIGN_OR_RETURN(const auto tokens, fields.Int("max_tokens", 1, kMaxCount));
  ASSIGN_OR_RETURN(const auto newer,
                   fields.Int("max_completion_tokens", 1, kMaxCount));
  if (tokens.has_value() && newer.has_value() && *tokens != *newer) {
    return fields.Bad("max_tokens", "is not what max_completion_tokens says");
  }
  const int64_t max_tokens = newer.value_or(tokens.value_or(0));
  stopping.set_max_tokens(static_cast<uint32_t>(max_tokens));
  RETURN_IF_ERROR(ReadStops(fields, "stop", stopping));
  ASSIGN_OR_RETURN(const auto ids, fields.Ints("stop_token_ids", 0, kMaxCount));
  for (const int64_t id : ids) {
    stopping.add_stop_token_ids(static_cast<uint32_t>(id));
  }
  ASSIGN_OR_RETURN(const auto ignore_eos, fields.Bool("ignore_eos"));
  stopping.set_ignore_eos(ignore_eos.value_or(false));
  return absl::OkStatus();
}

absl::Status ReadStreamAndUsage(JsonFields& fields, TextJob& job) {
  ASSIGN_OR_RETURN(std::optional<JsonFields> options, ReadStream(fields, job));
  if (!options.has_value()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto usage, options->Bool("include_usage"));
  job.has_usage = usage.value_or(false);
  return options->End();
}

absl::Status ReadResponseFormat(JsonFields& fields, Request& request) {
  const Json* given = fields.Find("response_format");
  if (given == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(JsonFields format,
                   JsonFields::Of(*given, "response_format."));
  ASSIGN_OR_RETURN(const auto type, format.Text("type"));
  if (type == "text") return format.End();
  if (type == "json_object") {
    const Json* schema = format.Find("schema");
    request.mutable_constraint()->set_json_schema(
        schema == nullptr ? kAnyObject : Dump(*schema));
    RETURN_IF_ERROR(ReadSchemaOptions(format, request));
    return format.End();
  }
  if (type != "json_schema") {
    return format.Bad("type", "must be text, json_object or json_schema");
  }
  const Json* wrapped = format.Find("json_schema");
  if (wrapped == nullptr) return format.Bad("json_schema", "is missing");
  ASSIGN_OR_RETURN(JsonFields inner,
                   JsonFields::Of(*wrapped, "response_format.json_schema."));
  RETURN_IF_ERROR(ReadNamedSchema(inner, request));
  return format.End();
}

// Reads what a reply must be: response_format, or a grammar or a schema as
// llama.cpp's server has them, or a regular expression as SGLang has it.
absl::Status ReadConstraint(JsonFields& fields, Request& request) {
  RETURN_IF_ERROR(ReadResponseFormat(fields, request));
  ASSIGN_OR_RETURN(const auto grammar, fields.Text("grammar"));
  ASSIGN_OR_RETURN(const auto regex, fields.Text("regex"));
  const Json* schema = fields.Find("json_schema");
  const int n_given = int{request.has_constraint()} + int{grammar.has_value()} +
                      int{regex.has_value()} + int{schema != nullptr};
  if (n_given > 1) {
    return fields.Bad(
        grammar.has_value() ? "grammar"
        : regex.has_value() ? "regex"
                            : "json_schema",
        "is not the only constraint: give one of response_format, grammar, "
        "regex and json_schema");
  }
  v1::OutputConstraint& constraint = *request.mutable_constraint();
  if (grammar.has_value()) constraint.set_gbnf(*grammar);
  if (regex.has_value()) constraint.set_regex(*regex);
  if (schema != nullptr) constraint.set_json_schema(Dump(*schema));
  if (n_given == 0) request.clear_constraint();
  return absl::OkStatus();
}

// How a context that is full goes on, in the words of plimsoll.v1.
absl::Status ReadContext(JsonFields& fields, const TextJob& job,
                         Request& request) {
  ASSIGN_OR_RETURN(const auto policy, fields.Text("context_policy"));
  const Json* given = fields.Find("roll");
  const bool is_roll = policy == "roll";
  if (policy.has_value() && policy != "stop" && !is_roll) {
    return fields.Bad("context_policy", "must be stop or roll");
  }
  if (given != nullptr && !is_roll) {
    return fields.Bad("roll", "means nothing without context_policy roll");
  }
  if (!is_roll) return absl::OkStatus();
  if (!job.is_streamed && request.stopping().max_tokens() == 0) {
    return fields.Bad("context_policy",
                      "roll needs max_tokens or a stream: nothing else ends a "
                      "reply");
  }
  request.set_context_policy(v1::CONTEXT_POLICY_ROLL);
  if (given == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(JsonFields roll, JsonFields::Of(*given, "roll."));
  ASSIGN_OR_RETURN(const auto pin, roll.Int("pin_tokens", 0, kMaxCount));
  if (pin.has_value()) {
    request.mutable_roll()->set_pin_tokens(static_cast<uint32_t>(*pin));
  }
  return roll.End();
}

// Reads what both kinds of request have. `rest` has everything but the prompt.
absl::Status ReadCommon(JsonFields& fields, TextJob& job, Request& rest) {
  ASSIGN_OR_RETURN(const auto model, fields.Text("model"));
  rest.set_model(model.value_or(""));
  RETURN_IF_ERROR(ReadSampling(fields, *rest.mutable_sampling()));
  RETURN_IF_ERROR(ReadStopping(fields, *rest.mutable_stopping()));
  RETURN_IF_ERROR(ReadStreamAndUsage(fields, job));
  RETURN_IF_ERROR(ReadContext(fields, job, rest));
  RETURN_IF_ERROR(ReadConstraint(fields, rest));
  ASSIGN_OR_RETURN(const auto n, fields.Int("n", 1, kMaxChoices));
  job.n_choices = static_cast<int>(n.value_or(1));
  fields.Ignore({std::begin(kIgnored), std::end(kIgnored)});
  return absl::OkStatus();
}

// Reads what a model's own template is told beside the conversation, and how
// long the model may think.
absl::Status ReadArguments(JsonFields& fields, Request& request) {
  v1::ChatPrompt& chat = *request.mutable_chat();
  RETURN_IF_ERROR(ReadTemplateArguments(fields, chat));
  ASSIGN_OR_RETURN(const auto effort, fields.Text("reasoning_effort"));
  if (effort.has_value()) {
    AddTemplateArgument("reasoning_effort", *effort, chat);
  }
  return ReadReasoning(fields, request);
}

absl::Status CheckChoices(const JsonFields& fields, const TextJob& job) {
  const size_t n = job.prompts.size() * static_cast<size_t>(job.n_choices);
  if (n <= static_cast<size_t>(kMaxChoices)) return absl::OkStatus();
  return fields.Bad("n", absl::StrCat("asks for ", n, " replies, at most ",
                                      kMaxChoices, " are given at once"));
}

Request& AddPrompt(const Request& rest, TextJob& job) {
  return job.prompts.emplace_back(rest);
}

void AddText(const std::string& text, const Request& rest, TextJob& job) {
  v1::TextPrompt& prompt = *AddPrompt(rest, job).mutable_text();
  prompt.set_text(text);
  // Who sends a prompt without a chat format writes the format himself.
  prompt.set_parse_special(true);
}

absl::Status AddIds(const JsonFields& fields, const Json& ids,
                    const Request& rest, TextJob& job) {
  v1::TokenPrompt& prompt = *AddPrompt(rest, job).mutable_tokens();
  for (const Json& id : ids) {
    const std::optional<int64_t> number = WholeNumber(id, 0, kMaxCount);
    if (!number.has_value()) {
      return fields.Bad("prompt", "must be texts or ids of tokens");
    }
    prompt.add_ids(static_cast<uint32_t>(*number));
  }
  return absl::OkStatus();
}

// A prompt is a text, ids, or an array of either.
absl::Status ReadPrompts(JsonFields& fields, const Request& rest,
                         TextJob& job) {
  const Json* given = fields.Find("prompt");
  if (given == nullptr) return fields.Bad("prompt", "is missing");
  if (given->is_string()) {
    AddText(given->get<std::string>(), rest, job);
    return absl::OkStatus();
  }
  if (!given->is_array() || given->empty()) {
    return fields.Bad("prompt", "must be texts or ids of tokens");
  }
  if (given->front().is_number()) return AddIds(fields, *given, rest, job);
  if (given->size() > static_cast<size_t>(kMaxChoices)) {
    return fields.Bad(
        "prompt",
        absl::StrCat("has ", given->size(), " prompts, at most ", kMaxChoices));
  }
  for (const Json& one : *given) {
    if (one.is_string()) {
      AddText(one.get<std::string>(), rest, job);
    } else if (one.is_array()) {
      RETURN_IF_ERROR(AddIds(fields, one, rest, job));
    } else {
      return fields.Bad("prompt", "must be texts or ids of tokens");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TextJob> ReadChatCompletion(const Json& body) {
  ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(body));
  TextJob job;
  Request request;
  RETURN_IF_ERROR(ReadCommon(fields, job, request));
  RETURN_IF_ERROR(ReadLogprobs(fields, *request.mutable_response()));
  RETURN_IF_ERROR(ReadConversation(fields, *request.mutable_chat()));
  RETURN_IF_ERROR(ReadArguments(fields, request));
  RETURN_IF_ERROR(fields.End());
  job.prompts.push_back(std::move(request));
  return job;
}

absl::StatusOr<TextJob> ReadCompletion(const Json& body) {
  ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(body));
  TextJob job;
  Request rest;
  RETURN_IF_ERROR(ReadCommon(fields, job, rest));
  ASSIGN_OR_RETURN(const auto logprobs,
                   fields.Int("logprobs", 0, kMaxTopLogprobs));
  if (logprobs.has_value()) {
    AskForLogprobs(*logprobs, *rest.mutable_response());
  }
  RETURN_IF_ERROR(fields.AllowOnly("echo", false, "is not supported"));
  RETURN_IF_ERROR(fields.AllowOnly("suffix", "", "is not supported"));
  RETURN_IF_ERROR(fields.AllowOnly("best_of", 1, "is not supported: take n"));
  RETURN_IF_ERROR(ReadPrompts(fields, rest, job));
  RETURN_IF_ERROR(fields.End());
  RETURN_IF_ERROR(CheckChoices(fields, job));
  return job;
}

}  // namespace plimsoll::services
