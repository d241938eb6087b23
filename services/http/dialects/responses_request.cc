#include "services/http/dialects/responses_request.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "services/generation/message_bytes.h"
#include "services/http/dialects/chat_messages.h"
#include "services/http/dialects/responses_input.h"
#include "services/http/request_fields.h"

namespace plimsoll::services {
namespace {

using Request = v1::StreamGenerateRequest;

// {"type": "function", "name": N, ...}
absl::Status ReadFlatTool(const Json& json, const std::string& path,
                          v1::Tool& tool) {
  ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(json, path));
  RETURN_IF_ERROR(
      fields.AllowOnly("type", "function",
                       "must be function: this server runs no tools itself"));
  RETURN_IF_ERROR(fields.AllowOnly(
      "defer_loading", false, "must be false: there is no search of tools"));
  // Nothing but the model calls a tool, and its format shows no outputs.
  fields.Ignore({"allowed_callers", "output_schema"});
  return ReadFunction(fields, tool);
}

// {"type": "function", "name": N}
absl::Status ReadFlatChoice(const Json& json, v1::ChatPrompt& chat) {
  ASSIGN_OR_RETURN(JsonFields choice, JsonFields::Of(json, "tool_choice."));
  RETURN_IF_ERROR(choice.AllowOnly("type", "function", "must be function"));
  return RequireFunction(choice, chat);
}

constexpr ToolSpelling kFlat = {ReadFlatTool, ReadFlatChoice};

absl::Status ReadDrawing(JsonFields& fields, TextJob& job, Request& request) {
  ASSIGN_OR_RETURN(const auto model, fields.Text("model"));
  request.set_model(model.value_or(""));
  v1::SamplingOptions& sampling = *request.mutable_sampling();
  RETURN_IF_ERROR(ReadDraw(fields, sampling));
  RETURN_IF_ERROR(ReadFilters(fields, sampling));
  RETURN_IF_ERROR(ReadRepetition(fields, "repetition_penalty", sampling));
  RETURN_IF_ERROR(ReadSeed(fields, sampling));
  ASSIGN_OR_RETURN(const auto tokens,
                   fields.Int("max_output_tokens", 1, kMaxCount));
  request.mutable_stopping()->set_max_tokens(
      static_cast<uint32_t>(tokens.value_or(0)));
  ASSIGN_OR_RETURN(std::optional<JsonFields> options, ReadStream(fields, job));
  return options.has_value() ? options->End() : absl::OkStatus();
}

absl::Status ReadTextFormat(JsonFields& fields, Request& request) {
  const Json* given = fields.Find("text");
  if (given == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(JsonFields text, JsonFields::Of(*given, "text."));
  // No model here was trained for it.
  text.Ignore({"verbosity"});
  const Json* wrapped = text.Find("format");
  RETURN_IF_ERROR(text.End());
  if (wrapped == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(JsonFields format, JsonFields::Of(*wrapped, "text.format."));
  ASSIGN_OR_RETURN(const auto type, format.Text("type"));
  if (type == "json_schema") return ReadNamedSchema(format, request);
  if (type == "json_object") {
    request.mutable_constraint()->set_json_schema(kAnyObject);
  } else if (type != "text") {
    return format.Bad("type", "must be text, json_object or json_schema");
  }
  return format.End();
}

absl::Status ReadIncluded(JsonFields& fields) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   fields.Texts("include", kMaxIncluded));
  for (const std::string& name : names) {
    if (name != "message.output_text.logprobs") continue;
    return fields.Bad(
        "include",
        "log-probabilities are not here: /v1/chat/completions has "
        "them");
  }
  return absl::OkStatus();
}

absl::Status RefuseWhatIsNotHere(JsonFields& fields) {
  RETURN_IF_ERROR(ReadIncluded(fields));
  RETURN_IF_ERROR(fields.AllowOnly(
      "background", false,
      "must be false: a response is computed while its client waits"));
  RETURN_IF_ERROR(fields.AllowOnly(
      "conversation", nullptr,
      "is not there: previous_response_id goes on with a conversation"));
  RETURN_IF_ERROR(fields.AllowOnly(
      "prompt", nullptr, "is not there: this server keeps no prompts"));
  RETURN_IF_ERROR(fields.AllowOnly("context_management", nullptr,
                                   "is not there: nothing leaves a prompt"));
  RETURN_IF_ERROR(fields.AllowOnly(
      "truncation", "disabled",
      "must be disabled: a prompt that is longer than the context is an error "
      "with both numbers"));
  RETURN_IF_ERROR(fields.AllowOnly(
      "top_logprobs", 0,
      "log-probabilities are not here: /v1/chat/completions has them"));
  // They are about accounts, caches and tools of OpenAI's.
  fields.Ignore({"max_tool_calls", "prompt_cache_key", "prompt_cache_options",
                 "prompt_cache_retention", "safety_identifier", "service_tier",
                 "user"});
  return absl::OkStatus();
}

absl::Status CheckMetadata(JsonFields& fields) {
  const Json* given = fields.Find("metadata");
  if (given == nullptr) return absl::OkStatus();
  if (!given->is_object()) return fields.Bad("metadata", "must be an object");
  for (const auto& [key, value] : given->items()) {
    if (!value.is_string()) {
      return fields.Bad("metadata", "must have texts as values");
    }
  }
  return absl::OkStatus();
}

// The turns up to `newest`, the oldest first.
std::vector<const StoredTurn*> TurnsUpTo(const StoredTurn* newest) {
  std::vector<const StoredTurn*> turns;
  for (; newest != nullptr; newest = newest->previous()) {
    turns.push_back(newest);
  }
  std::reverse(turns.begin(), turns.end());
  return turns;
}

// Reads the turns before this one. They were read before, or written by this
// server, so that their items are good.
absl::Status ReadTurns(const JsonFields& fields, ReadRoom& room,
                       ItemReader& items, TextJob& job) {
  const std::vector<const StoredTurn*> turns =
      TurnsUpTo(job.response->previous.get());
  size_t n_bytes = 0;
  size_t longest = 0;
  for (const StoredTurn* turn : turns) {
    const ResponseTexts& texts = turn->texts();
    n_bytes += texts.input.size() + texts.output.size();
    longest = std::max({longest, texts.input.size(), texts.output.size()});
  }
  if (n_bytes > static_cast<size_t>(kMaxTurnBytes)) {
    return fields.Bad(
        "previous_response_id",
        absl::StrCat("the conversation before has ", n_bytes,
                     " bytes, and at most ", kMaxTurnBytes,
                     " are read again: send what matters of it as input"));
  }
  job.turn_bytes = static_cast<int64_t>(n_bytes);
  RETURN_IF_ERROR(room.held.Grow(room.held.bytes() +
                                 kHeldPerByte * job.turn_bytes +
                                 kJsonPerByte * static_cast<int64_t>(longest)));
  for (const StoredTurn* turn : turns) {
    for (const std::string* text :
         {&turn->texts().input, &turn->texts().output}) {
      RETURN_IF_ERROR(items.Read(
          Json::parse(*text, /*cb=*/nullptr, /*allow_exceptions=*/false),
          "previous_response_id"));
    }
  }
  return absl::OkStatus();
}

absl::Status FindPrevious(JsonFields& fields, ResponseDraft& draft) {
  ASSIGN_OR_RETURN(const auto id, fields.Text("previous_response_id"));
  if (!id.has_value()) return absl::OkStatus();
  if (!draft.shelf.store.keeps()) {
    return fields.Bad("previous_response_id",
                      "this server keeps no responses: send the conversation "
                      "as input");
  }
  draft.previous = draft.shelf.store.Find(draft.shelf.tenant, *id);
  if (draft.previous != nullptr) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(
      "previous_response_id: there is no such response. It may have left the "
      "store, which keeps the ",
      ResponseStore::kMaxResponses, " responses that were used last, up to ",
      ResponseStore::kMaxBytes >> 20,
      " MiB. Send the conversation as input instead"));
}

absl::Status ReadConversationOf(JsonFields& fields, ReadRoom& room,
                                TextJob& job, v1::ChatPrompt& chat) {
  ASSIGN_OR_RETURN(const auto instructions, fields.Text("instructions"));
  const Json* input = fields.Find("input");
  if (input == nullptr || (input->is_array() && input->empty())) {
    return fields.Bad("input",
                      "must be a text or an array with an item at least");
  }
  ItemReader items(chat);
  items.AddInstructions(instructions.value_or(""));
  RETURN_IF_ERROR(FindPrevious(fields, *job.response));
  RETURN_IF_ERROR(ReadTurns(fields, room, items, job));
  RETURN_IF_ERROR(items.Read(*input, "input"));
  if (chat.messages_size() == 0) return fields.Bad("input", "says nothing");
  job.response->input = Dump(*input);
  return ReadToolUse(fields, kFlat, chat);
}

Json ValueOr(const Json& object, const std::string& name,
             const Json& otherwise) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? otherwise : *found;
}

// The fields that a response repeats of its request. What is absent, and for
// which the worker has a default, is null.
Json EchoOf(const Json& body, bool is_kept) {
  const Json none = Json::object();
  Json echo;
  for (const char* name :
       {"instructions", "max_output_tokens", "max_tool_calls",
        "previous_response_id", "temperature", "top_p"}) {
    echo[name] = ValueOr(body, name, nullptr);
  }
  echo["background"] = false;
  echo["metadata"] = ValueOr(body, "metadata", none);
  echo["parallel_tool_calls"] = ValueOr(body, "parallel_tool_calls", true);
  const Json reasoning = ValueOr(body, "reasoning", none);
  echo["reasoning"]["effort"] = ValueOr(reasoning, "effort", nullptr);
  echo["reasoning"]["summary"] = nullptr;
  echo["store"] = is_kept;
  echo["text"]["format"] =
      ValueOr(ValueOr(body, "text", none), "format", {{"type", "text"}});
  echo["tool_choice"] = ValueOr(body, "tool_choice", "auto");
  echo["tools"] = ValueOr(body, "tools", Json::array());
  echo["truncation"] = "disabled";
  return echo;
}

}  // namespace

absl::StatusOr<TextJob> ReadResponse(const Json& body, ReadRoom& room) {
  ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(body));
  TextJob job;
  Request request;
  job.response =
      std::make_shared<ResponseDraft>(ResponseDraft{.shelf = room.responses});
  ResponseDraft& draft = *job.response;
  v1::ChatPrompt& chat = *request.mutable_chat();
  RETURN_IF_ERROR(ReadDrawing(fields, job, request));
  RETURN_IF_ERROR(ReadConversationOf(fields, room, job, chat));
  RETURN_IF_ERROR(ReadTextFormat(fields, request));
  RETURN_IF_ERROR(ReadTemplateArguments(fields, chat));
  RETURN_IF_ERROR(ReadReasoning(fields, request));
  RETURN_IF_ERROR(CheckMetadata(fields));
  ASSIGN_OR_RETURN(const auto is_kept, fields.Bool("store"));
  const bool keeps = draft.shelf.store.keeps();
  if (is_kept == true && !keeps) {
    return fields.Bad("store", "must be false: this server keeps no responses");
  }
  draft.is_kept = is_kept.value_or(keeps);
  RETURN_IF_ERROR(RefuseWhatIsNotHere(fields));
  RETURN_IF_ERROR(fields.End());
  draft.echo = Dump(EchoOf(body, draft.is_kept));
  job.keeps_reply = true;
  job.held_bytes = static_cast<int64_t>(draft.echo.size() + draft.input.size());
  job.prompts.push_back(std::move(request));
  return job;
}

}  // namespace plimsoll::services
