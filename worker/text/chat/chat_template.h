// Renders the chat formats of known model families in C++. Scaffold may become
// special tokens; the text of users stays text.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_CHAT_TEMPLATE_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_CHAT_TEMPLATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/chat/chat_format.h"
#include "worker/text/chat/tool_call.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

enum class ChatRole { kSystem, kUser, kAssistant, kTool };

struct ChatMessage {
  ChatRole role;
  std::string content;  // a tool's response is JSON
  std::vector<ToolCall> tool_calls =
      {};                      // the assistant's calls, after content
  std::string tool_name = {};  // only in a tool's message
  std::string reasoning = {};  // the assistant's, before content
};

// A run of template text. Special tokens are parsed in scaffold, never in
// content.
struct ChatSegment {
  std::string text;
  bool is_scaffold;
};

// Limits of one conversation.
inline constexpr int64_t kMaxChatMessages = 4'096;
inline constexpr int64_t kMaxChatBytes = 16 << 20;

// Whether a conversation ends with the opening of the assistant's turn.
enum class GenerationPrompt { kLeftOut, kAdded };
constexpr GenerationPrompt GenerationPromptIf(bool is_wanted) {
  return is_wanted ? GenerationPrompt::kAdded : GenerationPrompt::kLeftOut;
}

// Renders the conversation.
// Errors: kInvalidArgument if there are no messages, for an order of roles that
// the format does not allow, for tools, calls and responses that are invalid or
// that the format does not have, or beyond the limits.
absl::StatusOr<std::vector<ChatSegment>> RenderChat(
    ChatFormat format, const std::vector<ChatMessage>& messages,
    GenerationPrompt prompt, const std::vector<Tool>& tools = {});

// The whole prompt as one string that people can read.
std::string ChatText(const std::vector<ChatSegment>& segments);

// Token ids of the rendered conversation. Adjacent segments of the same kind
// are one text. BOS comes once, if the model's rule or the template adds it.
// Control tokens appear only where the scaffold has them.
// Errors: those of CheckFits, before anything is tokenised; those of
// limits.stop.
absl::StatusOr<std::vector<int32_t>> EncodeChat(
    const Tokenizer& tokenizer, const std::vector<ChatSegment>& segments,
    const EncodeLimits& limits = {});

// Token ids of a chat that grows turn by turn. The whole chat is `opening`,
// then for each turn the user's content, `after_user` and the model's own
// reply, with `after_reply` between two turns. Together these ids equal the
// result of EncodeChat for the whole conversation, so a turn can be removed,
// from its content up to the content of the next turn.
struct ChatFrame {
  std::vector<int32_t> opening;  // with the system message, if there is one
  std::vector<int32_t> after_user;
  std::vector<int32_t> after_reply;
};

// Errors: those of RenderChat; those of CheckFits for the opening, before
// anything is tokenised; those of limits.stop.
absl::StatusOr<ChatFrame> EncodeFrame(const Tokenizer& tokenizer,
                                      ChatFormat format,
                                      const std::string* system,
                                      const EncodeLimits& limits = {});
// Ids of a user's content as the format shows it.
// Errors: those of EncodeFrame, for the content.
absl::StatusOr<std::vector<int32_t>> EncodeContent(
    const Tokenizer& tokenizer, ChatFormat format, const std::string& content,
    const EncodeLimits& limits = {});

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_CHAT_TEMPLATE_H_
