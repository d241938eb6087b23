// Roles and white space of chat formats.
#include "worker/text/chat/chat_segments.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "worker/text/code_points.h"

namespace plimsoll::worker {

absl::string_view RoleName(ChatRole role) {
  switch (role) {
    case ChatRole::kSystem:
      return "system";
    case ChatRole::kUser:
      return "user";
    case ChatRole::kAssistant:
      return "assistant";
    case ChatRole::kTool:
      return "tool";
  }
  return "";
}

absl::Status CheckChatLimits(const std::vector<ChatMessage>& messages,
                             const std::vector<Tool>& tools) {
  if (static_cast<int64_t>(tools.size()) > kMaxTools) {
    return absl::InvalidArgumentError(
        absl::StrCat(tools.size(), " tools are more than ", kMaxTools));
  }
  if (messages.empty()) {
    return absl::InvalidArgumentError(
        "chat.messages is empty: a conversation needs a message");
  }
  if (static_cast<int64_t>(messages.size()) > kMaxChatMessages) {
    return absl::InvalidArgumentError(
        absl::StrCat("a conversation of ", messages.size(),
                     " messages is longer than ", kMaxChatMessages));
  }
  int64_t bytes = 0;
  for (const ChatMessage& message : messages) {
    bytes +=
        static_cast<int64_t>(message.content.size() + message.tool_name.size());
    const auto n_calls = static_cast<int64_t>(message.tool_calls.size());
    if (n_calls > kMaxToolCalls) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a message has ", n_calls, " calls, more than ", kMaxToolCalls));
    }
    for (const ToolCall& call : message.tool_calls) {
      bytes += static_cast<int64_t>(call.name.size() + call.arguments.size());
    }
  }
  if (bytes > kMaxChatBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a conversation of ", bytes,
                                                   " bytes is longer than ",
                                                   kMaxChatBytes, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status CheckSegmentsFit(const Tokenizer& tokenizer,
                              const std::vector<ChatSegment>& segments,
                              const EncodeLimits& limits) {
  int64_t least = 0;
  for (const ChatSegment& segment : segments) {
    least += tokenizer.LeastBytes(segment.text);
  }
  return tokenizer.CheckFits(least, limits.max_tokens);
}

absl::string_view TrimChat(absl::string_view text) {
  while (!text.empty()) {
    absl::string_view rest = text;
    const auto first = TakeCodePoint(rest);
    if (!first || !IsPythonSpace(*first)) break;
    text = rest;
  }
  while (!text.empty()) {
    // The last code point begins at most 3 bytes (of these characters) back.
    size_t bytes = 1;
    while (bytes < 3 && bytes < text.size() &&
           (text[text.size() - bytes] & 0xC0) == 0x80) {
      ++bytes;
    }
    absl::string_view rest = text.substr(text.size() - bytes);
    const auto last = TakeCodePoint(rest);
    if (!last || !rest.empty() || !IsPythonSpace(*last)) break;
    text.remove_suffix(bytes);
  }
  return text;
}

}  // namespace plimsoll::worker
