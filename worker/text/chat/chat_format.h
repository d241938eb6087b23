// The chat formats that this build knows, by name and by a model's file.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_CHAT_FORMAT_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_CHAT_FORMAT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/gguf/gguf_header.h"

namespace plimsoll::worker {

enum class ChatFormat {
  kSmolLm2,  // ChatML with SmolLM2's default system message
  kChatMl,   // ChatML without a default system message
  kGemma3,
  kFunctionGemma,  // Gemma's turns, with tools
};

// Names as --chat-format takes them: "smollm2", "chatml", "gemma3",
// "functiongemma".
absl::string_view ChatFormatName(ChatFormat format);
// True if conversations in the format may have tools.
bool FormatHasTools(ChatFormat format);
// Errors: kInvalidArgument listing the existing names.
absl::StatusOr<ChatFormat> ParseChatFormat(absl::string_view name);

struct ChatFormatChoice {
  ChatFormat format;
  std::string reason;  // "the file's template", "the file has none: ..."
};

// Chooses the model's format: the format of the file's template, or the
// architecture's format if the file has no template.
// Errors: kUnimplemented for a template that is not known, with the formats
// that --chat-format takes.
absl::StatusOr<ChatFormatChoice> ChooseChatFormat(
    const planner::GgufHeader& header);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_CHAT_FORMAT_H_
