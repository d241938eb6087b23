#include "services/http/dialects/anthropic_reply.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "services/http/dialects/reply_deltas.h"
#include "services/http/http_errors.h"
#include "services/http/json.h"

namespace plimsoll::services {
namespace {

const char* StopWord(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_MAX_TOKENS:
      return "max_tokens";
    case v1::FINISH_REASON_LENGTH:
      return "model_context_window_exceeded";
    case v1::FINISH_REASON_STOP_STRING:
      return "stop_sequence";
    case v1::FINISH_REASON_TOOL_CALL:
      return "tool_use";
    default:
      return "end_turn";
  }
}

const char* ErrorWord(int http_status) {
  switch (http_status) {
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return http_status < 500 ? "invalid_request_error" : "api_error";
  }
}

Json ErrorJson(const absl::Status& status) {
  Json json;
  json["type"] = "error";
  json["error"]["type"] = ErrorWord(HttpStatusOf(status));
  json["error"]["message"] = ErrorMessage(status);
  return json;
}

// Tokens that were cached are no part of the input tokens.
Json UsageJson(uint64_t prompt_tokens, uint64_t cached_tokens,
               uint64_t reply_tokens) {
  Json json;
  json["input_tokens"] = prompt_tokens - cached_tokens;
  json["cache_creation_input_tokens"] = 0;
  json["cache_read_input_tokens"] = cached_tokens;
  json["output_tokens"] = reply_tokens;
  return json;
}

Json ToJson(const v1::TokenUsage& usage) {
  return UsageJson(usage.prompt_tokens(), usage.cached_tokens(),
                   usage.generated_tokens());
}

Json TextBlock(const std::string& text) {
  Json block;
  block["type"] = "text";
  block["text"] = text;
  return block;
}

// Thoughts are not signed: nobody but this server reads them again.
Json ThoughtBlock(const std::string& text) {
  Json block;
  block["type"] = "thinking";
  block["thinking"] = text;
  block["signature"] = "";
  return block;
}

// Puts why a reply ended into `json`; null if it has not.
void SetStop(const v1::FinishInfo* finish, Json& json) {
  json["stop_reason"] = nullptr;
  json["stop_sequence"] = nullptr;
  if (finish == nullptr) return;
  json["stop_reason"] = StopWord(finish->finish_reason());
  if (finish->has_stop_string()) {
    json["stop_sequence"] = finish->stop_string();
  }
}

class MessagesFormat final : public ReplyFormat {
 public:
  explicit MessagesFormat(ReplyHead head) : head_(std::move(head)) {}

  void AppendDelta(int /*index*/, const Delta& delta,
                   std::string& events) override {
    if (!is_begun_) Begin(events);
    const DeltaOrder::Ordered ordered = order_.Of(delta);
    for (const DeltaOrder::Step& step : ordered.first) AppendStep(step, events);
    if (!delta.reasoning().empty()) AppendThought(delta.reasoning(), events);
    if (!ordered.text.empty()) AppendText(ordered.text, events);
    for (const DeltaOrder::Step& step : ordered.then) AppendStep(step, events);
    if (!delta.has_finish()) return;
    CloseBlock(events);
    Json event = Event("message_delta");
    SetStop(&delta.finish(), event["delta"]);
    event["usage"] = ToJson(delta.finish().usage());
    Append(event, events);
  }

  void AppendEnd(std::string& events) override {
    Append(Event("message_stop"), events);
  }

  void AppendError(const absl::Status& status, std::string& events) override {
    Append(ErrorJson(status), events);
  }

  std::string Whole(const std::vector<Delta>& replies) override {
    const Delta& reply = replies.front();
    Json content = Json::array();
    if (!reply.reasoning().empty()) {
      content.push_back(ThoughtBlock(reply.reasoning()));
    }
    const std::string text = PlainText(reply);
    if (!text.empty()) content.push_back(TextBlock(text));
    for (const v1::ToolCall& call : reply.tool_calls()) {
      if (!call.error().empty()) continue;
      Json input = Json::parse(call.arguments(), nullptr,
                               /*allow_exceptions=*/false);
      content.push_back(CallBlock(call.name(), std::move(input)));
    }
    return Dump(Message(std::move(content), &reply.finish(),
                        ToJson(reply.finish().usage())));
  }

 private:
  enum class Open { kNone, kText, kThought, kCall };

  static Json Event(const char* type) {
    Json event;
    event["type"] = type;
    return event;
  }

  // An event that is about the block `n_blocks_ - 1`.
  Json BlockEvent(const char* type) const {
    Json event = Event(type);
    event["index"] = n_blocks_ - 1;
    return event;
  }

  static void Append(const Json& event, std::string& events) {
    AppendNamedEvent(event["type"].get<std::string>(), Dump(event), events);
  }

  Json Message(Json content, const v1::FinishInfo* finish, Json usage) const {
    Json message;
    message["id"] = absl::StrCat("msg_", head_.id);
    message["type"] = "message";
    message["role"] = "assistant";
    message["model"] = head_.model;
    message["content"] = std::move(content);
    SetStop(finish, message);
    message["usage"] = std::move(usage);
    return message;
  }

  Json CallBlock(const std::string& name, Json input) {
    Json block;
    block["type"] = "tool_use";
    block["id"] = absl::StrCat("toolu_", head_.id, "_", n_calls_++);
    block["name"] = name;
    block["input"] = std::move(input);
    return block;
  }

  void Begin(std::string& events) {
    is_begun_ = true;
    Json event = Event("message_start");
    event["message"] =
        Message(Json::array(), nullptr,
                UsageJson(static_cast<uint64_t>(head_.n_prompt_tokens), 0, 0));
    Append(event, events);
  }

  void OpenBlock(Json block, std::string& events) {
    ++n_blocks_;
    Json event = BlockEvent("content_block_start");
    event["content_block"] = std::move(block);
    Append(event, events);
  }

  void AppendDelta(const char* type, const char* field, const std::string& text,
                   std::string& events) const {
    Json event = BlockEvent("content_block_delta");
    event["delta"]["type"] = type;
    event["delta"][field] = text;
    Append(event, events);
  }

  void AppendText(const std::string& text, std::string& events) {
    if (open_ != Open::kText) {
      CloseBlock(events);
      OpenBlock(TextBlock(""), events);
      open_ = Open::kText;
    }
    AppendDelta("text_delta", "text", text, events);
  }

  void AppendThought(const std::string& text, std::string& events) {
    if (open_ != Open::kThought) {
      CloseBlock(events);
      OpenBlock(ThoughtBlock(""), events);
      open_ = Open::kThought;
    }
    AppendDelta("thinking_delta", "thinking", text, events);
  }

  // Says of a call that is none why, in a field that no client has to know.
  void CloseBlock(std::string& events, const std::string& error = "") {
    if (std::exchange(open_, Open::kNone) == Open::kNone) return;
    Json event = BlockEvent("content_block_stop");
    if (!error.empty()) event["error"] = error;
    Append(event, events);
  }

  void AppendStep(const DeltaOrder::Step& step, std::string& events) {
    if (step.piece != nullptr) {
      if (!step.piece->name().empty()) OpenCall(step.piece->name(), events);
      AppendArguments(step.piece->arguments(), events);
    } else if (step.had_pieces) {
      CloseBlock(events, step.call->error());
    } else if (step.call->error().empty()) {
      OpenCall(step.call->name(), events);
      AppendArguments(step.call->arguments(), events);
      CloseBlock(events);
    }
  }

  void OpenCall(const std::string& name, std::string& events) {
    CloseBlock(events);
    OpenBlock(CallBlock(name, Json::object()), events);
    open_ = Open::kCall;
  }

  void AppendArguments(const std::string& json, std::string& events) const {
    if (json.empty()) return;
    AppendDelta("input_json_delta", "partial_json", json, events);
  }

  const ReplyHead head_;
  bool is_begun_ = false;    // message_start was written
  Open open_ = Open::kNone;  // the last block, if it may grow
  DeltaOrder order_;         // order of a stream's deltas
  int64_t n_blocks_ = 0;     // blocks of a stream so far
  int64_t n_calls_ = 0;
};

}  // namespace

std::unique_ptr<ReplyFormat> NewMessagesFormat(const TextJob& /*job*/,
                                               ReplyHead head) {
  return std::make_unique<MessagesFormat>(std::move(head));
}

void AppendPing(int /*percent*/, std::string& events) {
  AppendNamedEvent("ping", R"({"type":"ping"})", events);
}

HttpResponse AnthropicError(const absl::Status& status) {
  HttpResponse response = ErrorResponse(status);
  response.body = Dump(ErrorJson(status));
  return response;
}

}  // namespace plimsoll::services
