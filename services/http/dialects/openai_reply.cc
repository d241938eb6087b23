#include "services/http/dialects/openai_reply.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/http/dialects/reply_deltas.h"
#include "services/http/dialects/token_json.h"
#include "services/http/http_errors.h"
#include "services/http/json.h"

namespace plimsoll::services {
namespace {

using Delta = ReplyFormat::Delta;

// What all replies to all prompts used. The replies to one prompt share it.
struct Usage {
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;
  uint64_t reply_tokens = 0;
  uint64_t reasoning_tokens = 0;  // a part of reply_tokens
};

Json ToJson(const Usage& usage) {
  Json json;
  json["prompt_tokens"] = usage.prompt_tokens;
  json["completion_tokens"] = usage.reply_tokens;
  json["total_tokens"] = usage.prompt_tokens + usage.reply_tokens;
  json["prompt_tokens_details"]["cached_tokens"] = usage.cached_tokens;
  json["completion_tokens_details"]["reasoning_tokens"] =
      usage.reasoning_tokens;
  return json;
}

// Adds the tokens that left the context to a choice, if some did. No client
// has to know the field.
void AddEvictions(const Delta& delta, Json& choice) {
  if (delta.evictions().empty()) return;
  Json list = Json::array();
  for (const v1::Eviction& eviction : delta.evictions()) {
    list.push_back({{"position", eviction.position()},
                    {"tokens", eviction.tokens()},
                    {"kept_tokens", eviction.kept_tokens()}});
  }
  choice["evictions"] = std::move(list);
}

void AppendEvent(const std::string& data, std::string& events) {
  absl::StrAppend(&events, "data: ", data, "\n\n");
}

// The parts that both kinds of reply have. A kind says what a choice has.
class OpenAiFormat : public ReplyFormat {
 public:
  OpenAiFormat(const TextJob& job, ReplyHead head, absl::string_view id_prefix)
      : head_(std::move(head)),
        id_(absl::StrCat(id_prefix, head_.id)),
        n_choices_(job.n_choices),
        has_usage_(job.has_usage),
        has_logprobs_(job.prompts.front().response().has_top_logprobs()) {}

  void AppendDelta(int index, const Delta& delta,
                   std::string& events) override {
    if (delta.has_finish()) Count(index, delta);
    for (Json& choice : Deltas(index, delta)) {
      Json message = Envelope(StreamObject());
      if (!std::exchange(has_notes_, true)) AddNotes(message);
      message["choices"].push_back(std::move(choice));
      if (has_usage_) message["usage"] = nullptr;
      AppendEvent(Dump(message), events);
    }
  }

  void AppendEnd(std::string& events) override {
    if (has_usage_) {
      Json message = Envelope(StreamObject());
      message["choices"] = Json::array();
      message["usage"] = ToJson(usage_);
      AppendEvent(Dump(message), events);
    }
    AppendEvent("[DONE]", events);
  }

  void AppendError(const absl::Status& status, std::string& events) override {
    AppendEvent(ErrorBody(status), events);
  }

  std::string Whole(const std::vector<Delta>& replies) override {
    Json message = Envelope(WholeObject());
    AddNotes(message);
    for (size_t i = 0; i < replies.size(); ++i) {
      const int index = static_cast<int>(i);
      Count(index, replies[i]);
      message["choices"].push_back(WholeChoice(index, replies[i]));
    }
    message["usage"] = ToJson(usage_);
    return Dump(message);
  }

 protected:
  virtual const char* WholeObject() const = 0;
  virtual const char* StreamObject() const = 0;
  // The choices that a delta of a stream becomes, one in each message.
  virtual std::vector<Json> Deltas(int index, const Delta& delta) = 0;
  virtual Json WholeChoice(int index, const Delta& reply) = 0;

  bool has_logprobs() const { return has_logprobs_; }
  int n_replies(const TextJob& job) const {
    return n_choices_ * static_cast<int>(job.prompts.size());
  }

 private:
  Json Envelope(const char* object) const {
    Json message;
    message["id"] = id_;
    message["object"] = object;
    message["created"] = head_.created_s;
    message["model"] = head_.model;
    return message;
  }

  // A field of our own, which clients of the API ignore.
  void AddNotes(Json& message) const {
    if (head_.constraint_notes.empty()) return;
    message["constraint_notes"] = head_.constraint_notes;
  }

  void Count(int index, const Delta& delta) {
    const v1::TokenUsage& used = delta.finish().usage();
    usage_.reply_tokens += used.generated_tokens();
    usage_.reasoning_tokens += used.reasoning_tokens();
    if (index % n_choices_ != 0) return;
    usage_.prompt_tokens += used.prompt_tokens();
    usage_.cached_tokens += used.cached_tokens();
  }

  const ReplyHead head_;
  const std::string id_;
  const int n_choices_;
  const bool has_usage_;
  const bool has_logprobs_;
  bool has_notes_ = false;  // whether a stream has said them
  Usage usage_;
};

class ChatFormat final : public OpenAiFormat {
 public:
  ChatFormat(const TextJob& job, ReplyHead head)
      : OpenAiFormat(job, std::move(head), "chatcmpl-"),
        begun_(static_cast<size_t>(n_replies(job))),
        orders_(static_cast<size_t>(n_replies(job))),
        n_calls_(static_cast<size_t>(n_replies(job))) {}

 private:
  const char* WholeObject() const override { return "chat.completion"; }
  const char* StreamObject() const override { return "chat.completion.chunk"; }

  // Null if nobody asked.
  Json Logprobs(const Delta& delta) const {
    if (!has_logprobs()) return nullptr;
    Json json;
    json["content"] = LogprobsJson(delta);
    json["refusal"] = nullptr;
    return json;
  }

  // A call, or the first piece of one.
  template <typename Call>
  static Json CallJson(const Call& call, int index, size_t number) {
    Json json;
    json["id"] = absl::StrCat("call_", index, "_", number);
    json["type"] = "function";
    json["function"]["name"] = call.name();
    json["function"]["arguments"] = call.arguments();
    return json;
  }

  static Json Choice(int index, Json delta, Json logprobs, Json reason) {
    Json choice;
    choice["index"] = index;
    choice["delta"] = std::move(delta);
    choice["logprobs"] = std::move(logprobs);
    choice["finish_reason"] = std::move(reason);
    return choice;
  }

  std::vector<Json> Deltas(int index, const Delta& delta) override {
    std::vector<Json> choices;
    const auto at = static_cast<size_t>(index);
    if (!begun_[at]) {
      begun_[at] = true;
      choices.push_back(Choice(index, {{"role", "assistant"}, {"content", ""}},
                               nullptr, nullptr));
    }
    if (!delta.evictions().empty()) {
      choices.push_back(Choice(index, Json::object(), nullptr, nullptr));
      AddEvictions(delta, choices.back());
    }
    const DeltaOrder::Ordered ordered = orders_[at].Of(delta);
    AddCalls(index, ordered.first, choices);
    if (!delta.reasoning().empty()) {
      choices.push_back(Choice(
          index, {{"reasoning_content", delta.reasoning()}}, nullptr, nullptr));
    }
    Json logprobs = Logprobs(delta);
    if (!ordered.text.empty() ||
        (has_logprobs() && !logprobs["content"].empty())) {
      choices.push_back(Choice(index, {{"content", ordered.text}},
                               std::move(logprobs), nullptr));
    }
    AddCalls(index, ordered.then, choices);
    if (delta.has_finish()) {
      choices.push_back(Choice(index, Json::object(), nullptr,
                               FinishWord(delta.finish().finish_reason())));
    }
    return choices;
  }

  // Adds the pieces of calls and the calls without pieces. A call that fails
  // after its pieces is named in a field that no client has to know.
  void AddCalls(int index, const std::vector<DeltaOrder::Step>& steps,
                std::vector<Json>& choices) {
    size_t& n_calls = n_calls_[static_cast<size_t>(index)];
    Json calls = Json::array();
    Json errors = Json::array();
    for (const DeltaOrder::Step& step : steps) {
      const bool is_piece = step.piece != nullptr;
      if (!is_piece && !step.call->error().empty()) {
        if (!step.had_pieces) continue;
        errors.push_back(
            {{"index", n_calls - 1}, {"error", step.call->error()}});
        continue;
      }
      if (!is_piece && step.had_pieces) continue;
      Json json;
      if (is_piece && step.piece->name().empty()) {
        json["function"]["arguments"] = step.piece->arguments();
      } else {
        json = is_piece ? CallJson(*step.piece, index, n_calls)
                        : CallJson(*step.call, index, n_calls);
        ++n_calls;
      }
      json["index"] = n_calls - 1;
      calls.push_back(std::move(json));
    }
    if (!calls.empty()) {
      choices.push_back(
          Choice(index, {{"tool_calls", std::move(calls)}}, nullptr, nullptr));
    }
    if (errors.empty()) return;
    choices.push_back(Choice(index, Json::object(), nullptr, nullptr));
    choices.back()["tool_call_errors"] = std::move(errors);
  }

  Json WholeChoice(int index, const Delta& reply) override {
    // Text that was meant as a call and is none stays text: nothing is lost.
    const std::string text = PlainText(reply);
    Json calls = Json::array();
    for (const v1::ToolCall& call : reply.tool_calls()) {
      if (!call.error().empty()) continue;
      calls.push_back(CallJson(call, index, calls.size()));
    }
    Json message;
    message["role"] = "assistant";
    const bool is_call_only = text.empty() && !calls.empty();
    message["content"] = is_call_only ? Json(nullptr) : Json(text);
    message["refusal"] = nullptr;
    if (!reply.reasoning().empty()) {
      message["reasoning_content"] = reply.reasoning();
    }
    if (!calls.empty()) message["tool_calls"] = std::move(calls);
    Json choice;
    choice["index"] = index;
    choice["message"] = std::move(message);
    choice["logprobs"] = Logprobs(reply);
    choice["finish_reason"] = FinishWord(reply.finish().finish_reason());
    AddEvictions(reply, choice);
    return choice;
  }

  std::vector<bool> begun_;         // replies of which a delta was written
  std::vector<DeltaOrder> orders_;  // one for each reply
  std::vector<size_t> n_calls_;     // calls that have begun in each reply
};

class CompletionFormat final : public OpenAiFormat {
 public:
  CompletionFormat(const TextJob& job, ReplyHead head)
      : OpenAiFormat(job, std::move(head), "cmpl-"),
        text_bytes_(static_cast<size_t>(n_replies(job))) {}

 private:
  const char* WholeObject() const override { return "text_completion"; }
  const char* StreamObject() const override { return "text_completion"; }

  // Null if nobody asked. `offset` is where the delta's first token begins in
  // the reply, in bytes; it moves on.
  Json Logprobs(const Delta& delta, size_t& offset) const {
    if (!has_logprobs()) return nullptr;
    Json json = {{"tokens", Json::array()},
                 {"token_logprobs", Json::array()},
                 {"top_logprobs", Json::array()},
                 {"text_offset", Json::array()}};
    for (const v1::GeneratedToken* token : TextTokens(delta)) {
      const std::string text = TokenText(token->text_bytes());
      json["tokens"].push_back(text);
      json["token_logprobs"].push_back(token->logprob());
      json["text_offset"].push_back(offset);
      offset += text.size();
      Json top = Json::object();
      for (const v1::TokenCandidate& candidate : token->candidates()) {
        top[TokenText(candidate.text_bytes())] = candidate.logprob();
      }
      json["top_logprobs"].push_back(std::move(top));
    }
    return json;
  }

  Json ChoiceOf(int index, const Delta& delta) {
    Json choice;
    choice["index"] = index;
    choice["text"] = delta.text();
    choice["logprobs"] =
        Logprobs(delta, text_bytes_[static_cast<size_t>(index)]);
    choice["finish_reason"] =
        delta.has_finish() ? Json(FinishWord(delta.finish().finish_reason()))
                           : Json(nullptr);
    AddEvictions(delta, choice);
    return choice;
  }

  std::vector<Json> Deltas(int index, const Delta& delta) override {
    if (delta.text().empty() && !delta.has_finish() && !has_logprobs() &&
        delta.evictions().empty()) {
      return {};
    }
    return {ChoiceOf(index, delta)};
  }

  Json WholeChoice(int index, const Delta& reply) override {
    return ChoiceOf(index, reply);
  }

  std::vector<size_t> text_bytes_;  // bytes of each reply's tokens so far
};

}  // namespace

std::unique_ptr<ReplyFormat> NewChatFormat(const TextJob& job, ReplyHead head) {
  return std::make_unique<ChatFormat>(job, std::move(head));
}

std::unique_ptr<ReplyFormat> NewCompletionFormat(const TextJob& job,
                                                 ReplyHead head) {
  return std::make_unique<CompletionFormat>(job, std::move(head));
}

}  // namespace plimsoll::services
