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
  kFunctionGemma,  // the one with tools
};

// Names as in --chat-format: "smollm2", "chatml", "gemma3", "functiongemma".
absl::string_view ChatFormatName(ChatFormat format);
// Errors: kInvalidArgument listing the names.
absl::StatusOr<ChatFormat> ParseChatFormat(absl::string_view name);

struct ChatFormatChoice {
  ChatFormat format;
  std::string reason;  // "the file's template", "the file has none: ..."
};

// The format of the model: recognised from the file's template, or its
// architecture's where the file has none.
// Errors: kUnimplemented for a template we do not know, with the formats that
// --chat-format takes.
absl::StatusOr<ChatFormatChoice> ChooseChatFormat(
    const planner::GgufHeader& header);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_CHAT_FORMAT_H_
