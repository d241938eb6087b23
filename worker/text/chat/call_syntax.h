// Reads the calls of tools that models write, each family in its own way.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_CALL_SYNTAX_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_CALL_SYNTAX_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/text/chat/reply_format.h"
#include "worker/text/chat/tool_call.h"

namespace plimsoll::worker {

// Reads what stands between the marks of a call. Some syntaxes write values
// without quotes: such a value is a string if the parameters in `tools` say so
// or if it is not JSON.
// Errors: kInvalidArgument saying what is wrong, also beyond kMaxToolCallBytes
// and kMaxToolCallDepth.
absl::StatusOr<std::vector<ToolCall>> ParseCalls(CallSyntax syntax,
                                                 absl::string_view text,
                                                 absl::Span<const Tool> tools);

// The names of a tool's parameters that are strings by their type or by their
// values. Syntaxes without quotes have their texts as they are.
std::vector<std::string> StringParameters(const Tool& tool);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_CALL_SYNTAX_H_
