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

  void AppendPart(int /*index*/, const Part& part,
                  std::string& lines) override {
    is_begun_ = true;
    const bool has_tokens = has_logprobs_ && part.tokens_size() > 0;
    if (!part.text().empty() || !part.reasoning().empty() ||
        part.tool_calls_size() > 0 || has_tokens) {
      Json line = Message(&part);
      line["done"] = false;
      Append(line, lines);
    }
    if (part.has_finish()) Append(End(nullptr, part.finish()), lines);
  }

  void AppendEnd(std::string& lines) override {
    if (!is_begun_) Append(Loaded(), lines);
  }

  void AppendError(const absl::Status& status, std::string& lines) override {
    Append(OllamaErrorJson(status), lines);
  }

  std::string Whole(const std::vector<Part>& replies) override {
    if (replies.empty()) return Dump(Loaded());
    return Dump(End(&replies.front(), replies.front().finish()));
  }

 protected:
  // Adds what `part` says to a message; null says nothing.
  virtual void AddText(const Part* part, Json& message) = 0;

  static std::string TextOf(const Part* part) {
    if (part == nullptr) return "";
    // Text that was meant as a call and is none stays text: nothing is lost.
    std::string text = part->text();
    for (const v1::ToolCall& call : part->tool_calls()) text += call.text();
    return text;
  }
  // Adds what `part` has of reasoning, if any.
  static void AddThinking(const Part* part, Json& json) {
    if (part == nullptr || part->reasoning().empty()) return;
    json["thinking"] = part->reasoning();
  }
  const std::string& id() const { return head_.id; }

 private:
  static void Append(const Json& line, std::string& lines) {
    absl::StrAppend(&lines, Dump(line), "\n");
  }

  Json Message(const Part* part) {
    Json message;
    message["model"] = head_.model;
    message["created_at"] = OllamaTime(absl::Now());
    AddText(part, message);
    if (has_logprobs_ && part != nullptr) {
      message["logprobs"] = LogprobsJson(*part);
    }
    return message;
  }

  Json End(const Part* part, const v1::FinishInfo& finish) {
    Json message = Message(part);
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
  bool is_begun_ = false;  // a part of a stream was written
};

class OllamaChatFormat final : public OllamaFormat {
 public:
  using OllamaFormat::OllamaFormat;

 private:
  void AddText(const Part* part, Json& message) override {
    Json said;
    said["role"] = "assistant";
    said["content"] = TextOf(part);
    AddThinking(part, said);
    Json calls = Json::array();
    for (int i = 0; part != nullptr && i < part->tool_calls_size(); ++i) {
      const v1::ToolCall& call = part->tool_calls(i);
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
  void AddText(const Part* part, Json& message) override {
    message["response"] = TextOf(part);
    AddThinking(part, message);
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
