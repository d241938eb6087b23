// Conversations with tools: turns a request into token ids, and a reply's text
// into its parts.
#ifndef PLIMSOLL_SERVICES_WIRE_CHAT_TOOLS_H_
#define PLIMSOLL_SERVICES_WIRE_CHAT_TOOLS_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "plimsoll/v1/common.pb.h"
#include "plimsoll/v1/generation.pb.h"
#include "worker/engine/engine.h"
#include "worker/text/chat/chat_template.h"
#include "worker/text/chat/model_template.h"
#include "worker/text/chat/reasoning_count.h"
#include "worker/text/chat/reply_splitter.h"
#include "worker/text/chat/tool_call.h"

namespace plimsoll::services {

// A conversation as one model sees it.
struct EncodedChat {
  std::vector<int32_t> ids;
  std::string text;  // the text for people
  // The marks of the parts of the reply, if the format or the model's own
  // template has marks.
  std::optional<worker::ReplyReading> reading;
  bool splits_reply = true;  // the client gets the parts separately
};

// The input of a chat format or a template.
struct ChatInput {
  std::vector<worker::ChatMessage> messages;
  std::vector<worker::Tool> tools;
  bool add_generation_prompt = true;
  std::string template_arguments = {};  // as ModelTemplate::Render takes them
};

// The tools of a request. Errors: kInvalidArgument naming `field` beyond
// worker::kMaxTools, and if two tools have the same name.
absl::StatusOr<std::vector<worker::Tool>> ToolsFrom(
    const google::protobuf::RepeatedPtrField<v1::Tool>& tools,
    absl::string_view field);

// A model's own template, with the time that it shows.
struct TimedTemplate {
  const worker::ModelTemplate& program;
  absl::Time now;
};

// Encodes a conversation in a built-in format, or by a model's own template.
// Errors: kInvalidArgument if the conversation has tools and the vocabulary
// lacks their markers; those of worker::RenderChat and worker::EncodeChat, or
// of ModelTemplate::Render and worker::EncodeTemplated.
absl::StatusOr<EncodedChat> EncodeConversation(
    const worker::Tokenizer& tokenizer, worker::ChatFormat format,
    const ChatInput& conversation, const worker::EncodeLimits& limits = {});
absl::StatusOr<EncodedChat> EncodeConversation(
    const worker::Tokenizer& tokenizer, const TimedTemplate& own,
    const ChatInput& conversation, const worker::EncodeLimits& limits = {});

// Errors: kInvalidArgument naming the field, also if the request has tools and
// the vocabulary lacks their markers; those of worker::EncodeChat.
absl::StatusOr<EncodedChat> EncodeChatPrompt(
    const worker::Tokenizer& tokenizer, worker::ChatFormat format,
    const v1::ChatPrompt& prompt, const worker::EncodeLimits& limits = {});

// EncodeChatPrompt by the model's own template.
// Errors: those of ModelTemplate::Render and worker::EncodeTemplated;
// kInvalidArgument naming the field.
absl::StatusOr<EncodedChat> EncodeTemplatePrompt(
    const worker::Tokenizer& tokenizer, const TimedTemplate& own,
    const v1::ChatPrompt& prompt, const worker::EncodeLimits& limits = {});

v1::ToolCall ToProto(const worker::ReadToolCall& read);

// Adds the new piece of a call to `deltas`, in which consecutive pieces of the
// same call are joined.
void AddDelta(const worker::CallDelta& delta,
              google::protobuf::RepeatedPtrField<v1::ToolCallDelta>& deltas);

// Separates text, reasoning and calls of one reply while it is generated. Used
// by one thread at a time.
class ReplyTools {
 public:
  ReplyTools() = default;  // for a reply that is only text
  // Without `reading` the reply is only text. `tokenizer` outlives it.
  ReplyTools(std::optional<worker::ReplyReading> reading,
             const worker::Tokenizer& tokenizer);

  // Adds to `message` the text of `output`, the calls that it completes and the
  // pieces of calls. Some kinds of message have no calls, or no pieces.
  template <typename Message>
  void Append(const worker::StepOutput& output, Message& message) {
    CountReasoning(output);
    if (!splitter_) {
      message.mutable_text()->append(output.text);
      return;
    }
    worker::ReplyDelta delta;
    splitter_->Push(output.text, delta);
    AddReply(delta, message);
  }

  // Adds the text that was held back and the call that the end of the reply cut
  // off. Returns the finish reason.
  template <typename Message>
  v1::FinishReason End(const worker::FinishInfo& info, Message& message) {
    if (splitter_) {
      worker::ReplyDelta delta;
      splitter_->Finish(delta);
      AddReply(delta, message);
    }
    return Reason(info);
  }

  // The number of reasoning tokens of the reply. Absent if there are no marks
  // of reasoning.
  std::optional<int64_t> reasoning_tokens() const {
    if (!reasoning_) return std::nullopt;
    return reasoning_->n_tokens();
  }

 private:
  void CountReasoning(const worker::StepOutput& output);
  template <typename Message>
  void AddReply(const worker::ReplyDelta& delta, Message& message) {
    message.mutable_text()->append(delta.text);
    if constexpr (requires { message.mutable_reasoning(); }) {
      message.mutable_reasoning()->append(delta.reasoning);
    }
    if constexpr (requires { message.mutable_tool_call_deltas(); }) {
      for (const worker::CallDelta& piece : delta.deltas) {
        AddDelta(piece, *message.mutable_tool_call_deltas());
      }
    }
    for (const worker::ReadToolCall& read : delta.calls) {
      has_call_ |= read.call.ok();
      if constexpr (requires { message.add_tool_calls(); }) {
        *message.add_tool_calls() = ToProto(read);
      }
    }
  }
  v1::FinishReason Reason(const worker::FinishInfo& info) const;

  const worker::Tokenizer* tokenizer_ = nullptr;  // to count with
  std::optional<worker::ReplySplitter> splitter_;
  std::optional<worker::ReasoningCount> reasoning_;
  bool has_call_ = false;  // a call without an error
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WIRE_CHAT_TOOLS_H_
