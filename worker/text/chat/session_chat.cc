#include "worker/text/chat/session_chat.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace plimsoll::worker {

int64_t TextBytes(const ChatTurn& turn) {
  size_t n_bytes = 0;
  for (const ChatMessage& message : turn) {
    n_bytes += message.content.size() + message.reasoning.size() +
               message.tool_name.size();
    for (const ToolCall& call : message.tool_calls) {
      n_bytes += call.name.size() + call.arguments.size();
    }
  }
  return static_cast<int64_t>(n_bytes);
}

ChatMessage ReadReply(const std::optional<ReplyReading>& reading,
                      absl::string_view text) {
  ChatMessage message = {.role = ChatRole::kAssistant, .content = {}};
  if (!reading) {
    message.content = std::string(text);
    return message;
  }
  ReplySplitter splitter(*reading);
  ReplyDelta delta;
  splitter.Push(text, delta);
  splitter.Finish(delta);
  message.content = std::move(delta.text);
  message.reasoning = std::move(delta.reasoning);
  for (ReadToolCall& read : delta.calls) {
    if (!read.call.ok()) {
      absl::StrAppend(&message.content, read.text);
    } else if (std::ssize(message.tool_calls) < kMaxToolCalls) {
      message.tool_calls.push_back(*std::move(read.call));
    } else {
      absl::StrAppend(&message.content, "{\"name\": \"", read.call->name,
                      "\", \"arguments\": ", read.call->arguments, "}");
    }
  }
  return message;
}

}  // namespace plimsoll::worker
