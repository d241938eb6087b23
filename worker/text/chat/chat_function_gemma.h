// FunctionGemma's conversations, with declarations, calls and responses of
// tools.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_CHAT_FUNCTION_GEMMA_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_CHAT_FUNCTION_GEMMA_H_

#include <vector>

#include "absl/status/statusor.h"
#include "worker/text/chat/chat_template.h"
#include "worker/text/chat/tool_call.h"

namespace plimsoll::worker {

// Renders a conversation in this format.
// Errors: kInvalidArgument for an order of messages that the format does not
// allow, and those of WriteToolDeclaration, WriteToolCall and
// WriteToolResponse.
// Source: MODELS.md 5.1.
absl::StatusOr<std::vector<ChatSegment>> RenderFunctionGemma(
    const std::vector<ChatMessage>& messages, const std::vector<Tool>& tools,
    bool add_generation_prompt);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_CHAT_FUNCTION_GEMMA_H_
