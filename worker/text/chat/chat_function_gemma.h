// FunctionGemma's conversations, with tool declarations, calls and responses.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_CHAT_FUNCTION_GEMMA_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_CHAT_FUNCTION_GEMMA_H_

#include <vector>

#include "absl/status/statusor.h"
#include "worker/text/chat/chat_template.h"
#include "worker/text/chat/reply_format.h"
#include "worker/text/chat/tool_call.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

// Renders a conversation in this format. A turn is "<start_of_turn>ROLE\n", its
// text and "<end_of_turn>\n". Declarations go into a first turn of the role
// "developer". A response follows its call in the model's turn, without a new
// turn.
// Errors: kInvalidArgument for an order of messages that the format does not
// allow; those of WriteToolDeclaration, WriteToolCall and WriteToolResponse.
absl::StatusOr<std::vector<ChatSegment>> RenderFunctionGemma(
    const std::vector<ChatMessage>& messages, const std::vector<Tool>& tools,
    bool add_generation_prompt);

// True if the vocabulary has all markers of the format, as control tokens or as
// user-defined ones.
bool HasToolMarkers(const Tokenizer& tokenizer);

// The marks of calls in the model's replies.
ReplyFormat FunctionGemmaReplies();

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_CHAT_FUNCTION_GEMMA_H_
