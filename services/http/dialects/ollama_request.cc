#include "services/http/dialects/ollama_request.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "services/http/dialects/ollama_messages.h"
#include "services/http/request_fields.h"

namespace plimsoll::services {
namespace {

using Request = v1::StreamGenerateRequest;

// The longest reach of penalties.
constexpr int64_t kMaxPenaltyTokens = 8'192;
constexpr char kKeepAlive[] =
    "must be seconds, or a text such as 5m; negative: for ever";
// Without effect: the plan decides how a model is loaded, contexts do not
// shift, and the other two belong to mirostat.
constexpr absl::string_view kIgnoredOptions[] = {
    "numa",     "num_batch",    "num_gpu",     "main_gpu",
    "low_vram", "f16_kv",       "logits_all",  "vocab_only",
    "use_mmap", "use_mlock",    "num_thread",  "embedding_only",
    "num_keep", "mirostat_tau", "mirostat_eta"};

absl::Status ReadOllamaSampling(JsonFields& options,
                                v1::SamplingOptions& sampling) {
  RETURN_IF_ERROR(ReadDraw(options, sampling));
  RETURN_IF_ERROR(ReadFilters(options, sampling));
  RETURN_IF_ERROR(ReadRepetition(options, "repeat_penalty", sampling));
  ASSIGN_OR_RETURN(const auto reach,
                   options.Int("repeat_last_n", -1, kMaxPenaltyTokens));
  if (reach.has_value()) {
    const int64_t tokens = *reach < 0 ? kMaxPenaltyTokens : *reach;
    sampling.set_penalty_last_tokens(static_cast<uint32_t>(tokens));
  }
  RETURN_IF_ERROR(ReadSeed(options, sampling));
  const Json* seed = options.Find("seed");
  if (seed != nullptr && *seed == -1) return SetRandomSeed(sampling);
  return absl::OkStatus();
}

absl::Status ReadOptions(JsonFields& fields, TextJob& job, Request& request) {
  const Json none = Json::object();  // a seed is drawn all the same
  const Json* given = fields.Find("options");
  ASSIGN_OR_RETURN(
      JsonFields options,
      JsonFields::Of(given == nullptr ? none : *given, "options."));
  RETURN_IF_ERROR(ReadOllamaSampling(options, *request.mutable_sampling()));
  RETURN_IF_ERROR(ReadStops(options, "stop", *request.mutable_stopping()));
  ASSIGN_OR_RETURN(const auto tokens,
                   options.Int("num_predict", -2, kMaxCount));
  request.mutable_stopping()->set_max_tokens(
      static_cast<uint32_t>(std::max<int64_t>(tokens.value_or(0), 0)));
  ASSIGN_OR_RETURN(const auto n_ctx, options.Int("num_ctx", 1, kMaxCount));
  job.least_n_ctx = n_ctx.value_or(0);
  RETURN_IF_ERROR(options.AllowOnly("mirostat", 0, "is not supported"));
  RETURN_IF_ERROR(options.AllowOnly("tfs_z", 1, "is not supported"));
  RETURN_IF_ERROR(options.AllowOnly(
      "penalize_newline", true, "must be true: penalties count all tokens"));
  options.Ignore({std::begin(kIgnoredOptions), std::end(kIgnoredOptions)});
  return options.End();
}

absl::Status ReadFormat(JsonFields& fields, Request& request) {
  const Json* format = fields.Find("format");
  if (format == nullptr || *format == "") return absl::OkStatus();
  if (format->is_object()) {
    request.mutable_constraint()->set_json_schema(Dump(*format));
    return absl::OkStatus();
  }
  if (*format != "json") {
    return fields.Bad("format", "must be json or a JSON schema");
  }
  request.mutable_constraint()->set_json_schema(kAnyObject);
  return absl::OkStatus();
}

// Reads what both kinds of request have but the prompt.
absl::Status ReadRest(JsonFields& fields, TextJob& job, Request& request) {
  ASSIGN_OR_RETURN(const auto model, fields.Text("model"));
  request.set_model(model.value_or(""));
  ASSIGN_OR_RETURN(const auto stream, fields.Bool("stream"));
  job.is_streamed = stream.value_or(true);
  RETURN_IF_ERROR(ReadOptions(fields, job, request));
  RETURN_IF_ERROR(ReadFormat(fields, request));
  RETURN_IF_ERROR(ReadLogprobs(fields, *request.mutable_response()));
  for (const char* name : {"truncate", "shift"}) {
    RETURN_IF_ERROR(fields.AllowOnly(name, false,
                                     "must be false: what does not fit in the "
                                     "context is refused"));
  }
  return absl::OkStatus();
}

// Tells the model's template whether, or how much, the model may think.
absl::Status ReadThink(JsonFields& fields, Request& request) {
  const Json* think = fields.Find("think");
  if (think == nullptr) return absl::OkStatus();
  if (!think->is_boolean() && !think->is_string()) {
    return fields.Bad("think", "must be true, false or a level such as low");
  }
  if (!request.has_chat()) return absl::OkStatus();
  v1::ChatPrompt& chat = *request.mutable_chat();
  AddTemplateArgument("enable_thinking", *think != false, chat);
  if (think->is_string()) {
    AddTemplateArgument("reasoning_effort", *think, chat);
  }
  return absl::OkStatus();
}

// A duration: seconds, as a number or a text, or a text such as 5m; nothing for
// anything else.
std::optional<absl::Duration> DurationOf(const Json& given) {
  if (given.is_number()) return absl::Seconds(given.get<double>());
  if (!given.is_string()) return std::nullopt;
  const auto& text = given.get_ref<const std::string&>();
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) return absl::Seconds(seconds);
  absl::Duration time;
  if (absl::ParseDuration(text, &time)) return time;
  return std::nullopt;
}

// Reads how long the model stays loaded; negative means for ever.
absl::Status ReadKeepAlive(JsonFields& fields, TextJob& job) {
  const Json* given = fields.Find("keep_alive");
  if (given == nullptr) return absl::OkStatus();
  const std::optional<absl::Duration> time = DurationOf(*given);
  if (!time.has_value()) return fields.Bad("keep_alive", kKeepAlive);
  job.keep_alive =
      *time < absl::ZeroDuration() ? absl::InfiniteDuration() : *time;
  return absl::OkStatus();
}

// Ends a request. One without a prompt has a model loaded, or unloaded if it is
// not to be kept.
absl::StatusOr<TextJob> Finish(JsonFields& fields, TextJob job,
                               Request request) {
  RETURN_IF_ERROR(ReadKeepAlive(fields, job));
  RETURN_IF_ERROR(ReadThink(fields, request));
  RETURN_IF_ERROR(fields.End());
  if (request.input_case() == Request::INPUT_NOT_SET) job.n_choices = 0;
  job.prompts.push_back(std::move(request));
  return job;
}

}  // namespace

absl::StatusOr<TextJob> ReadOllamaChat(const Json& body) {
  ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(body));
  TextJob job;
  Request request;
  RETURN_IF_ERROR(ReadRest(fields, job, request));
  v1::ChatPrompt chat;
  RETURN_IF_ERROR(ReadOllamaConversation(fields, chat));
  if (chat.messages_size() > 0) *request.mutable_chat() = std::move(chat);
  return Finish(fields, std::move(job), std::move(request));
}

absl::StatusOr<TextJob> ReadOllamaGenerate(const Json& body) {
  ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(body));
  TextJob job;
  Request request;
  RETURN_IF_ERROR(ReadRest(fields, job, request));
  ASSIGN_OR_RETURN(const auto prompt, fields.Text("prompt"));
  ASSIGN_OR_RETURN(const auto system, fields.Text("system"));
  ASSIGN_OR_RETURN(const auto raw, fields.Bool("raw"));
  RETURN_IF_ERROR(fields.AllowOnly("suffix", "", "is not supported"));
  RETURN_IF_ERROR(fields.AllowOnly(
      "template", "", "is not supported: take raw, or the model's own"));
  RETURN_IF_ERROR(fields.AllowOnly("context", Json::array(),
                                   "is not supported: take /api/chat"));
  RETURN_IF_ERROR(fields.AllowOnly(
      "images", Json::array(), "must be empty: this server reads no images"));
  for (const char* name : {"width", "height", "steps"}) {
    RETURN_IF_ERROR(
        fields.AllowOnly(name, 0, "must be 0: this server draws no images"));
  }
  if (prompt.value_or("").empty()) {
    return Finish(fields, std::move(job), std::move(request));
  }
  if (raw.value_or(false)) {
    request.mutable_text()->set_text(*prompt);
    request.mutable_text()->set_parse_special(true);
    return Finish(fields, std::move(job), std::move(request));
  }
  if (!system.value_or("").empty()) {
    v1::ChatMessage& message = *request.mutable_chat()->add_messages();
    message.set_role(v1::CHAT_ROLE_SYSTEM);
    message.set_content(*system);
  }
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role(v1::CHAT_ROLE_USER);
  message.set_content(*prompt);
  return Finish(fields, std::move(job), std::move(request));
}

}  // namespace plimsoll::services
