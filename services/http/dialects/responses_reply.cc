#include "services/http/dialects/responses_reply.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "services/host/random_id.h"
#include "services/http/dialects/reply_deltas.h"
#include "services/http/dialects/responses_request.h"
#include "services/http/http_errors.h"
#include "services/http/json.h"

namespace plimsoll::services {
namespace {

// Puts the fields of `more`, an object that is not empty, into `object`. Both
// are texts, so that long ones need not be read.
std::string Joined(absl::string_view object, absl::string_view more) {
  object.remove_suffix(1);
  more.remove_prefix(1);
  return absl::StrCat(object, ",", more);
}

std::string WithOutput(const ResponseTexts& texts) {
  return Joined(texts.rest, absl::StrCat(R"({"output":)", texts.output, "}"));
}

bool IsCut(const v1::FinishInfo& finish) {
  return finish.finish_reason() == v1::FINISH_REASON_MAX_TOKENS ||
         finish.finish_reason() == v1::FINISH_REASON_LENGTH;
}

HttpResponse NoSuchResponse() {
  return ErrorResponse(
      404,
      "there is no such response: it may have left the store, or was never "
      "kept");
}

class ResponseFormat final : public ReplyFormat {
 public:
  ResponseFormat(std::shared_ptr<ResponseDraft> draft, ReplyHead head)
      : draft_(std::move(draft)), head_(std::move(head)), key_(RandomId()) {}

  void AppendDelta(int /*index*/, const Delta& delta,
                   std::string& events) override {
    Begin(events);
    Take(delta, &events);
  }

  void AppendEnd(std::string& events) override {
    AppendStage(IsCut(finish_) ? "response.incomplete" : "response.completed",
                Keep(), events);
  }

  void AppendError(const absl::Status& status, std::string& events) override {
    Begin(events);
    CloseItem("incomplete", &events);
    Json rest = Rest("failed");
    rest["error"]["code"] =
        HttpStatusOf(status) == 429 ? "rate_limit_exceeded" : "server_error";
    rest["error"]["message"] = ErrorMessage(status);
    AppendStage("response.failed", WithOutput(Texts(rest)), events);
  }

  std::string Whole(const std::vector<Delta>& replies) override {
    Take(replies.front(), /*events=*/nullptr);
    return Keep();
  }

 private:
  enum class Open { kNone, kReasoning, kMessage, kCall };

  std::string id() const { return absl::StrCat("resp_", key_); }
  std::string ItemId(const char* prefix) const {
    return absl::StrCat(prefix, "_", key_, "_", n_items_);
  }

  // The response without its output.
  Json Rest(const char* status) const {
    Json rest;
    rest["id"] = id();
    rest["object"] = "response";
    rest["created_at"] = head_.created_s;
    rest["status"] = status;
    rest["error"] = nullptr;
    rest["incomplete_details"] = nullptr;
    rest["model"] = head_.model;
    rest["usage"] = nullptr;
    // A field of our own, which clients of the API ignore.
    if (!head_.constraint_notes.empty()) {
      rest["constraint_notes"] = head_.constraint_notes;
    }
    return rest;
  }

  Json Usage() const {
    const v1::TokenUsage& used = finish_.usage();
    Json usage;
    usage["input_tokens"] = used.prompt_tokens();
    usage["input_tokens_details"]["cached_tokens"] = used.cached_tokens();
    usage["input_tokens_details"]["cache_write_tokens"] = 0;
    usage["output_tokens"] = used.generated_tokens();
    usage["output_tokens_details"]["reasoning_tokens"] =
        used.reasoning_tokens();
    usage["total_tokens"] =
        uint64_t{used.prompt_tokens()} + used.generated_tokens();
    return usage;
  }

  ResponseTexts Texts(const Json& rest) const {
    return {.input = "",
            .output = absl::StrCat("[", output_, "]"),
            .rest = Joined(Dump(rest), draft_->echo)};
  }

  // The whole response, which is kept if that is wanted.
  std::string Keep() {
    Json rest = Rest(IsCut(finish_) ? "incomplete" : "completed");
    if (IsCut(finish_)) {
      rest["incomplete_details"]["reason"] = "max_output_tokens";
    }
    rest["usage"] = Usage();
    ResponseTexts texts = Texts(rest);
    std::string whole = WithOutput(texts);
    if (draft_->is_kept) {
      texts.input = std::move(draft_->input);
      draft_->shelf.store.Keep(draft_->shelf.tenant, id(), std::move(texts),
                               draft_->previous);
    }
    return whole;
  }

  void Append(const std::string& type, const Json& fields,
              std::string& events) {
    Json event = {{"type", type}, {"sequence_number", n_events_++}};
    event.update(fields);
    AppendNamedEvent(type, Dump(event), events);
  }

  // An event with the whole response.
  void AppendStage(const char* type, const std::string& response,
                   std::string& events) {
    AppendNamedEvent(
        type,
        absl::StrCat(R"({"type":")", type, R"(","sequence_number":)",
                     n_events_++, R"(,"response":)", response, "}"),
        events);
  }

  void Begin(std::string& events) {
    if (n_events_ > 0) return;
    const std::string response = WithOutput(Texts(Rest("in_progress")));
    AppendStage("response.created", response, events);
    AppendStage("response.in_progress", response, events);
  }

  // Takes a delta of the reply; without `events` none are written.
  void Take(const Delta& delta, std::string* events) {
    const DeltaOrder::Ordered ordered = order_.Of(delta);
    for (const DeltaOrder::Step& step : ordered.first) TakeStep(step, events);
    Say(Open::kReasoning, delta.reasoning(), events);
    Say(Open::kMessage, ordered.text, events);
    for (const DeltaOrder::Step& step : ordered.then) TakeStep(step, events);
    if (!delta.has_finish()) return;
    finish_ = delta.finish();
    CloseItem(IsCut(finish_) ? "incomplete" : "completed", events);
  }

  const char* OpenPrefix() const {
    return open_ == Open::kReasoning ? "rs" : "msg";
  }
  // The type of the open item's content.
  const char* OpenText() const {
    return open_ == Open::kReasoning ? "reasoning_text" : "output_text";
  }
  // That content, with this text.
  Json OpenContent(const std::string& text) const {
    Json content = {{"type", OpenText()}, {"text", text}};
    if (open_ == Open::kMessage) {
      content["annotations"] = Json::array();
      content["logprobs"] = Json::array();
    }
    return content;
  }

  // The open item, with this content.
  Json OpenItem(const char* status, Json content) const {
    Json item;
    item["id"] = ItemId(OpenPrefix());
    item["type"] = open_ == Open::kReasoning ? "reasoning" : "message";
    item["status"] = status;
    if (open_ == Open::kReasoning) {
      item["summary"] = Json::array();
    } else {
      item["role"] = "assistant";
    }
    item["content"] = std::move(content);
    return item;
  }

  void AppendItem(const char* type, Json item, std::string& events) {
    Append(type, {{"output_index", n_items_}, {"item", std::move(item)}},
           events);
  }

  // An event about the content of the open item.
  void AppendOfContent(const std::string& type, const Json& more,
                       std::string& events) {
    Json fields = {{"item_id", ItemId(OpenPrefix())},
                   {"output_index", n_items_},
                   {"content_index", 0}};
    fields.update(more);
    Append(type, fields, events);
  }

  // An event about the text of that content: "delta" with a `field` of this
  // name, or "done" with "text".
  void AppendOfText(const char* what, const char* field,
                    const std::string& text, std::string& events) {
    Json more = {{field, text}};
    if (open_ == Open::kMessage) more["logprobs"] = Json::array();
    AppendOfContent(absl::StrCat("response.", OpenText(), ".", what), more,
                    events);
  }

  void Say(Open kind, const std::string& text, std::string* events) {
    if (text.empty()) return;
    if (open_ != kind) {
      CloseItem("completed", events);
      open_ = kind;
      if (events != nullptr) {
        AppendItem("response.output_item.added",
                   OpenItem("in_progress", Json::array()), *events);
        AppendOfContent("response.content_part.added",
                        {{"part", OpenContent("")}}, *events);
      }
    }
    text_ += text;
    if (events != nullptr) AppendOfText("delta", "delta", text, *events);
  }

  void CloseItem(const char* status, std::string* events) {
    if (open_ == Open::kNone) return;
    if (open_ == Open::kCall) return CloseCall(status, events);
    const Json content = OpenContent(text_);
    const Json item = OpenItem(status, Json::array({content}));
    if (events != nullptr) {
      AppendOfText("done", "text", text_, *events);
      AppendOfContent("response.content_part.done", {{"part", content}},
                      *events);
      AppendItem("response.output_item.done", item, *events);
    }
    AddItem(item);
    open_ = Open::kNone;
    text_.clear();
  }

  void AddItem(const Json& item) {
    absl::StrAppend(&output_, output_.empty() ? "" : ",", Dump(item));
    ++n_items_;
  }

  void TakeStep(const DeltaOrder::Step& step, std::string* events) {
    if (step.piece != nullptr) {
      if (!step.piece->name().empty()) OpenCall(step.piece->name(), events);
      AddArguments(step.piece->arguments(), events);
    } else if (step.had_pieces) {
      CloseItem(step.call->error().empty() ? "completed" : "incomplete",
                events);
    } else if (step.call->error().empty()) {
      OpenCall(step.call->name(), events);
      AddArguments(step.call->arguments(), events);
      CloseItem("completed", events);
    }
  }

  // The open call.
  Json CallItem(const char* status) const {
    Json item;
    item["id"] = ItemId("fc");
    item["type"] = "function_call";
    item["status"] = status;
    item["call_id"] = ItemId("call");
    item["name"] = call_name_;
    item["arguments"] = text_;
    return item;
  }

  // An event about the arguments of the open call.
  void AppendOfCall(const char* what, const Json& more, std::string& events) {
    Json fields = {{"item_id", ItemId("fc")}, {"output_index", n_items_}};
    fields.update(more);
    Append(absl::StrCat("response.function_call_arguments.", what), fields,
           events);
  }

  void OpenCall(const std::string& name, std::string* events) {
    CloseItem("completed", events);
    open_ = Open::kCall;
    call_name_ = name;
    if (events == nullptr) return;
    AppendItem("response.output_item.added", CallItem("in_progress"), *events);
  }

  void AddArguments(const std::string& json, std::string* events) {
    text_ += json;
    if (events == nullptr || json.empty()) return;
    AppendOfCall("delta", {{"delta", json}}, *events);
  }

  // The arguments of a call that is incomplete are never done, so that nobody
  // makes it.
  void CloseCall(const std::string& status, std::string* events) {
    const Json item = CallItem(status.c_str());
    if (events != nullptr) {
      if (status == "completed") {
        AppendOfCall("done", {{"name", call_name_}, {"arguments", text_}},
                     *events);
      }
      AppendItem("response.output_item.done", item, *events);
    }
    AddItem(item);
    open_ = Open::kNone;
    text_.clear();
  }

  const std::shared_ptr<ResponseDraft> draft_;
  const ReplyHead head_;
  const std::string key_;  // a part of all ids of the response
  int64_t n_events_ = 0;
  int64_t n_items_ = 0;      // items that are complete
  std::string output_;       // those, as JSON with commas between them
  Open open_ = Open::kNone;  // the item after them, if one has begun
  std::string text_;         // text of the open item, or its arguments
  std::string call_name_;    // name of the open item, if it is a call
  DeltaOrder order_;
  v1::FinishInfo finish_;  // once it has come
};

}  // namespace

std::unique_ptr<ReplyFormat> NewResponseFormat(const TextJob& job,
                                               ReplyHead head) {
  return std::make_unique<ResponseFormat>(job.response, std::move(head));
}

HttpResponse StoredResponse(const ResponseShelf& shelf, const std::string& id) {
  const StoredTurn::Ptr turn = shelf.store.Find(shelf.tenant, id);
  if (turn == nullptr) return NoSuchResponse();
  return {.body = WithOutput(turn->texts())};
}

HttpResponse DeletedResponse(const ResponseShelf& shelf,
                             const std::string& id) {
  if (!shelf.store.Remove(shelf.tenant, id)) return NoSuchResponse();
  Json json;
  json["id"] = id;
  json["object"] = "response";
  json["deleted"] = true;
  return {.body = Dump(json)};
}

}  // namespace plimsoll::services
