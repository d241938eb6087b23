#include "services/http/request_fields.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "base/status_macros.h"
#include "services/host/random_id.h"
#include "worker/text/schema_reader.h"

namespace plimsoll::services {
namespace {

constexpr int64_t kMinInt = std::numeric_limits<int64_t>::min();
constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
// The least probability mass; 0 keeps no token.
constexpr double kLeastMass = 1e-6;

// A number may be in this range, both ends included.
struct NumberRange {
  double min;
  double max;
};

// Calls `set` with a number that is there.
template <typename Set>
absl::Status ReadNumber(JsonFields& fields, const std::string& name,
                        const NumberRange& range, Set set) {
  ASSIGN_OR_RETURN(const auto value, fields.Number(name, range.min, range.max));
  if (value.has_value()) set(static_cast<float>(*value));
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadDraw(JsonFields& fields, v1::SamplingOptions& sampling) {
  RETURN_IF_ERROR(ReadNumber(
      fields, "temperature", {0, 100},
      [&sampling](float value) { sampling.set_temperature(value); }));
  RETURN_IF_ERROR(
      ReadNumber(fields, "top_p", {kLeastMass, 1},
                 [&sampling](float value) { sampling.set_top_p(value); }));
  ASSIGN_OR_RETURN(const auto top_k, fields.Int("top_k", 0, kMaxCount));
  if (top_k.has_value()) sampling.set_top_k(static_cast<uint32_t>(*top_k));
  return absl::OkStatus();
}

absl::Status ReadFilters(JsonFields& fields, v1::SamplingOptions& sampling) {
  RETURN_IF_ERROR(ReadNumber(fields, "min_p", {0, 1}, [&sampling](float value) {
    sampling.set_min_p(value);
  }));
  RETURN_IF_ERROR(
      ReadNumber(fields, "typical_p", {kLeastMass, 1},
                 [&sampling](float value) { sampling.set_typical_p(value); }));
  RETURN_IF_ERROR(ReadNumber(
      fields, "presence_penalty", {-2, 2},
      [&sampling](float value) { sampling.set_presence_penalty(value); }));
  return ReadNumber(
      fields, "frequency_penalty", {-2, 2},
      [&sampling](float value) { sampling.set_frequency_penalty(value); });
}

absl::Status ReadRepetition(JsonFields& fields, const std::string& name,
                            v1::SamplingOptions& sampling) {
  return ReadNumber(fields, name, {0.01, 100}, [&sampling](float value) {
    sampling.set_repetition_penalty(value);
  });
}

absl::Status ReadSeed(JsonFields& fields, v1::SamplingOptions& sampling) {
  ASSIGN_OR_RETURN(const auto seed, fields.Int("seed", kMinInt, kMaxInt));
  if (!seed.has_value()) return SetRandomSeed(sampling);
  sampling.set_seed(static_cast<uint64_t>(*seed));
  return absl::OkStatus();
}

absl::Status SetRandomSeed(v1::SamplingOptions& sampling) {
  uint64_t value = 0;
  if (!absl::SimpleHexAtoi(RandomId().substr(0, 16), &value)) {
    return absl::InternalError("no random number");
  }
  sampling.set_seed(value);
  return absl::OkStatus();
}

absl::Status ReadStops(JsonFields& fields, const std::string& name,
                       v1::StoppingOptions& stopping) {
  ASSIGN_OR_RETURN(const std::vector<std::string> stops,
                   fields.Texts(name, kMaxStops));
  for (const std::string& stop : stops) stopping.add_stop_strings(stop);
  return absl::OkStatus();
}

absl::Status ReadLogprobs(JsonFields& fields, v1::ResponseOptions& response) {
  ASSIGN_OR_RETURN(const auto wanted, fields.Bool("logprobs"));
  ASSIGN_OR_RETURN(const auto top,
                   fields.Int("top_logprobs", 0, kMaxTopLogprobs));
  if (!wanted.value_or(false)) {
    if (!top.has_value()) return absl::OkStatus();
    return fields.Bad("top_logprobs", "means nothing without logprobs");
  }
  AskForLogprobs(top.value_or(0), response);
  return absl::OkStatus();
}

void AskForLogprobs(int64_t n_candidates, v1::ResponseOptions& response) {
  response.set_top_logprobs(static_cast<uint32_t>(n_candidates));
  response.set_token_bytes(true);
}

absl::StatusOr<std::optional<JsonFields>> ReadStream(JsonFields& fields,
                                                     TextJob& job) {
  ASSIGN_OR_RETURN(const auto stream, fields.Bool("stream"));
  job.is_streamed = stream.value_or(false);
  const Json* options = fields.Find("stream_options");
  if (options == nullptr) return std::nullopt;
  if (!job.is_streamed) {
    return fields.Bad("stream_options", "means nothing without stream");
  }
  ASSIGN_OR_RETURN(JsonFields inner,
                   JsonFields::Of(*options, "stream_options."));
  // Padding against readers of an encrypted stream's lengths; there is none.
  inner.Ignore({"include_obfuscation"});
  return std::optional<JsonFields>(std::move(inner));
}

absl::Status ReadSchemaOptions(JsonFields& fields,
                               v1::StreamGenerateRequest& request) {
  const Json* given = fields.Find("schema_options");
  if (given == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(JsonFields inner, JsonFields::Of(*given, "schema_options."));
  v1::JsonSchemaOptions& options =
      *request.mutable_constraint()->mutable_schema_options();
  ASSIGN_OR_RETURN(const auto closed_objects, inner.Bool("closed_objects"));
  options.set_closed_objects(closed_objects.value_or(false));
  ASSIGN_OR_RETURN(const auto any_order, inner.Bool("any_order"));
  options.set_any_order(any_order.value_or(false));
  ASSIGN_OR_RETURN(const auto any_spelling, inner.Bool("any_spelling"));
  options.set_any_spelling(any_spelling.value_or(false));
  ASSIGN_OR_RETURN(const auto refuse_unknown, inner.Bool("refuse_unknown"));
  options.set_refuse_unknown(refuse_unknown.value_or(false));
  ASSIGN_OR_RETURN(const auto ignore_formats, inner.Bool("ignore_formats"));
  options.set_ignore_formats(ignore_formats.value_or(false));
  return inner.End();
}

absl::Status ReadNamedSchema(JsonFields& fields,
                             v1::StreamGenerateRequest& request) {
  const Json* schema = fields.Find("schema");
  if (schema == nullptr) return fields.Bad("schema", "is missing");
  request.mutable_constraint()->set_json_schema(Dump(*schema));
  RETURN_IF_ERROR(ReadSchemaOptions(fields, request));
  // The reply is as the schema says in any case.
  fields.Ignore({"name", "description", "strict"});
  return fields.End();
}

absl::Status ReadTemplateArguments(JsonFields& fields, v1::ChatPrompt& chat) {
  const Json* given = fields.Find("chat_template_kwargs");
  if (given == nullptr) return absl::OkStatus();
  if (!given->is_object()) {
    return fields.Bad("chat_template_kwargs", "must be an object");
  }
  chat.set_template_arguments(Dump(*given));
  return absl::OkStatus();
}

void AddTemplateArgument(const std::string& name, const Json& value,
                         v1::ChatPrompt& chat) {
  Json arguments = Json::parse(chat.template_arguments(), /*cb=*/nullptr,
                               /*allow_exceptions=*/false);
  if (!arguments.is_object()) arguments = Json::object();
  arguments[name] = value;
  chat.set_template_arguments(Dump(arguments));
}

absl::Status ReadReasoning(JsonFields& fields,
                           v1::StreamGenerateRequest& request) {
  const Json* given = fields.Find("reasoning");
  if (given == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(JsonFields reasoning, JsonFields::Of(*given, "reasoning."));
  ASSIGN_OR_RETURN(const auto effort, reasoning.Text("effort"));
  v1::ChatPrompt& chat = *request.mutable_chat();
  // "none" means no reasoning at all, for which templates have another
  // variable.
  if (effort == "none") {
    AddTemplateArgument("enable_thinking", false, chat);
  } else if (effort.has_value()) {
    AddTemplateArgument("reasoning_effort", *effort, chat);
  }
  RETURN_IF_ERROR(
      ReadThoughtLimit(reasoning, "max_tokens", *request.mutable_stopping()));
  // Reasoning comes as it is, and the model's template decides which of it the
  // model sees again.
  reasoning.Ignore({"context", "generate_summary", "summary"});
  return reasoning.End();
}

absl::Status ReadThoughtLimit(JsonFields& fields, const std::string& name,
                              v1::StoppingOptions& stopping) {
  ASSIGN_OR_RETURN(const auto tokens, fields.Int(name, 0, kMaxCount));
  if (tokens.has_value()) {
    stopping.set_max_reasoning_tokens(static_cast<uint32_t>(*tokens));
  }
  return absl::OkStatus();
}

std::string ToolResponse(const std::string& text) {
  return worker::ReadSchemaJson(text).ok() ? text : Dump(Json(text));
}

}  // namespace plimsoll::services
