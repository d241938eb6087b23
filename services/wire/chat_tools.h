// Conversations with tools: from a request to token ids, and from a reply's
// tokens to calls.
#ifndef PLIMSOLL_SERVICES_WIRE_CHAT_TOOLS_H_
#define PLIMSOLL_SERVICES_WIRE_CHAT_TOOLS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plimsoll/v1/common.pb.h"
#include "plimsoll/v1/generation.pb.h"
#include "worker/engine/engine.h"
#include "worker/text/chat/chat_template.h"
#include "worker/text/chat/tool_reader.h"

namespace plimsoll::services {

// A conversation as one model sees it.
struct EncodedChat {
  std::vector<int32_t> ids;
  std::string text;  // for people
  // What frames calls in the reply, if the format and the vocabulary have it.
  std::optional<worker::ToolMarkers> tool_markers;
};

// Errors: kInvalidArgument naming the field; also where tools are meant for a
// vocabulary without their markers; those of worker::EncodeChat.
absl::StatusOr<EncodedChat> EncodeChatPrompt(
    const worker::Tokenizer& tokenizer, worker::ChatFormat format,
    const v1::ChatPrompt& prompt, const worker::EncodeLimits& limits = {});

v1::ToolCall ToProto(const worker::ReadToolCall& read);

// The calls of one reply, as its tokens come. Used by one thread at a time.
class ReplyTools {
 public:
  ReplyTools() = default;  // of a reply that has none
  // The tokenizer must outlive it.
  ReplyTools(const worker::Tokenizer& tokenizer,
             const std::optional<worker::ToolMarkers>& markers) {
    if (markers) reader_.emplace(tokenizer, *markers);
  }

  // Adds the calls that are complete with `output` to `message`, which may be
  // of a kind without calls.
  template <typename Message>
  void Append(const worker::StepOutput& output, Message& message) {
    if (!reader_) return;
    for (const worker::TokenOutput& token : output.tokens) {
      Add(reader_->Push(token.id), message);
    }
  }

  // Adds the call that the reply's end cut off, and says why it ended.
  template <typename Message>
  v1::FinishReason End(const worker::FinishInfo& info, Message& message) {
    if (reader_) Add(reader_->Finish(), message);
    return Reason(info);
  }

 private:
  template <typename Message>
  void Add(const std::optional<worker::ReadToolCall>& read, Message& message) {
    if (!read) return;
    has_call_ |= read->call.ok();
    if constexpr (requires { message.add_tool_calls(); }) {
      *message.add_tool_calls() = ToProto(*read);
    }
  }
  v1::FinishReason Reason(const worker::FinishInfo& info) const;

  std::optional<worker::ToolReader> reader_;
  bool has_call_ = false;  // without an error
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WIRE_CHAT_TOOLS_H_
