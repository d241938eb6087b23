#include "services/http/dialects/ollama_reply.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/http/dialects/token_json.h"
#include "services/http/http_errors.h"
#include "services/http/json.h"

namespace plimsoll::services {
namespace {

const char* DoneWord(v1::FinishReason reason) {
  const bool is_cut = reason == v1::FINISH_REASON_MAX_TOKENS ||
                      reason == v1::FINISH_REASON_LENGTH;
  return is_cut ? "length" : "stop";
}

int64_t Nanoseconds(const google::protobuf::Duration& duration) {
  return duration.seconds() * 1'000'000'000 + duration.nanos();
}

Json OllamaErrorJson(const absl::Status& status) {
  Json json;
  json["error"] = ErrorMessage(status);
  return json;
}

// What both kinds of reply have. A kind says where its text is.
class OllamaFormat : public ReplyFormat {
 public:
  OllamaFormat(const TextJob& job, ReplyHead head)
      : head_(std::move(head)),
        has_logprobs_(job.prompts.front().response().has_top_logprobs()),
        is_unload_(job.IsUnload()) {}

  void AppendDelta(int /*index*/, const Delta& delta,
                   std::string& lines) override {
    is_begun_ = true;
    const bool has_tokens = has_logprobs_ && delta.tokens_size() > 0;
    if (!delta.text().empty() || !delta.reasoning().empty() ||
        delta.tool_calls_size() > 0 || has_tokens) {
      Json line = Message(&delta);
      line["done"] = false;
      Append(line, lines);
    }
    if (delta.has_finish()) Append(End(nullptr, delta.finish()), lines);
  }

  void AppendEnd(std::string& lines) override {
    if (!is_begun_) Append(Loaded(), lines);
  }

  void AppendError(const absl::Status& status, std::string& lines) override {
    Append(OllamaErrorJson(status), lines);
  }

  std::string Whole(const std::vector<Delta>& replies) override {
    if (replies.empty()) return Dump(Loaded());
    return Dump(End(&replies.front(), replies.front().finish()));
  }

 protected:
  // Adds what `delta` says to a message; null says nothing.
  virtual void AddText(const Delta* delta, Json& message) = 0;

  static std::string TextOf(const Delta* delta) {
    if (delta == nullptr) return "";
    // Text that was meant as a call and is none stays text: nothing is lost.
    std::string text = delta->text();
    for (const v1::ToolCall& call : delta->tool_calls()) text += call.text();
    return text;
  }
  // Adds what `delta` has of reasoning, if any.
  static void AddThinking(const Delta* delta, Json& json) {
    if (delta == nullptr || delta->reasoning().empty()) return;
    json["thinking"] = delta->reasoning();
  }
  const std::string& id() const { return head_.id; }

 private:
  static void Append(const Json& line, std::string& lines) {
    absl::StrAppend(&lines, Dump(line), "\n");
  }

  Json Message(const Delta* delta) {
    Json message;
    message["model"] = head_.model;
    message["created_at"] = OllamaTime(absl::Now());
    AddText(delta, message);
    if (has_logprobs_ && delta != nullptr) {
      message["logprobs"] = LogprobsJson(*delta);
    }
    return message;
  }

  Json End(const Delta* delta, const v1::FinishInfo& finish) {
    Json message = Message(delta);
    message["done"] = true;
    message["done_reason"] = DoneWord(finish.finish_reason());
    const v1::GenerationTiming& timing = finish.timing();
    message["total_duration"] = Nanoseconds(timing.total());
    message["load_duration"] = absl::ToInt64Nanoseconds(head_.load_time);
    message["prompt_eval_count"] = finish.usage().prompt_tokens();
    message["prompt_eval_duration"] = Nanoseconds(timing.prefill());
    message["eval_count"] = finish.usage().generated_tokens();
    message["eval_duration"] = Nanoseconds(timing.decode());
    return message;
  }

  // The reply to a request without a prompt.
  Json Loaded() {
    Json message = Message(nullptr);
    message["done"] = true;
    message["done_reason"] = is_unload_ ? "unload" : "load";
    return message;
  }

  const ReplyHead head_;
  const bool has_logprobs_;
  const bool is_unload_;
  bool is_begun_ = false;  // a delta of a stream was written
};

class OllamaChatFormat final : public OllamaFormat {
 public:
  using OllamaFormat::OllamaFormat;

 private:
  void AddText(const Delta* delta, Json& message) override {
    Json said;
    said["role"] = "assistant";
    said["content"] = TextOf(delta);
    AddThinking(delta, said);
    Json calls = Json::array();
    for (int i = 0; delta != nullptr && i < delta->tool_calls_size(); ++i) {
      const v1::ToolCall& call = delta->tool_calls(i);
      if (!call.error().empty()) continue;
      Json json;
      json["id"] = absl::StrCat("call_", id(), "_", n_calls_);
      json["function"]["index"] = n_calls_++;
      json["function"]["name"] = call.name();
      json["function"]["arguments"] =
          Json::parse(call.arguments(), nullptr, /*allow_exceptions=*/false);
      calls.push_back(std::move(json));
    }
    if (!calls.empty()) said["tool_calls"] = std::move(calls);
    message["message"] = std::move(said);
  }

  int64_t n_calls_ = 0;
};

class OllamaGenerateFormat final : public OllamaFormat {
 public:
  using OllamaFormat::OllamaFormat;

 private:
  void AddText(const Delta* delta, Json& message) override {
    message["response"] = TextOf(delta);
    AddThinking(delta, message);
  }
};

}  // namespace

std::unique_ptr<ReplyFormat> NewOllamaChatFormat(const TextJob& job,
                                                 ReplyHead head) {
  return std::make_unique<OllamaChatFormat>(job, std::move(head));
}

std::unique_ptr<ReplyFormat> NewOllamaGenerateFormat(const TextJob& job,
                                                     ReplyHead head) {
  return std::make_unique<OllamaGenerateFormat>(job, std::move(head));
}

HttpResponse OllamaError(const absl::Status& status) {
  HttpResponse response = ErrorResponse(status);
  response.body = Dump(OllamaErrorJson(status));
  return response;
}

std::string OllamaTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone());
}

}  // namespace plimsoll::services
