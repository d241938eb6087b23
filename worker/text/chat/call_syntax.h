// Reads the tool calls that models write, in the syntax of each family.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_CALL_SYNTAX_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_CALL_SYNTAX_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/text/chat/reply_format.h"
#include "worker/text/chat/tool_call.h"

namespace plimsoll::worker {

// The members of a call in JSON that have its name and its arguments. The first
// key that occurs in a call is used.
inline constexpr const char* kCallNameKeys[] = {"name", "tool_name",
                                                "function"};
inline constexpr const char* kCallArgumentKeys[] = {"arguments", "parameters",
                                                    "args"};

// The text before the arguments of a call whose name is not JSON.
struct CallHead {
  absl::string_view name;
  bool is_fenced = false;  // the arguments end at a line of three backquotes
};

// Takes the head of a call off the front of `text`, for the syntaxes
// kNamedJson, kChannel, kDeepSeek and kKimi. Returns nothing if the head is
// missing or incomplete; `text` is then unspecified.
std::optional<CallHead> TakeCallHead(CallSyntax syntax,
                                     absl::string_view& text);

// Reads the text between the marks of a call. Some formats write values without
// quotes: such a value is a string if the parameters in `tools` say so or if it
// is not JSON.
// Errors: kInvalidArgument with the fault, also beyond kMaxToolCallBytes and
// kMaxToolCallDepth.
absl::StatusOr<std::vector<ToolCall>> ParseCalls(const ReplyFormat& format,
                                                 absl::string_view text,
                                                 absl::Span<const Tool> tools);

// The names of a tool's parameters that are strings by their type or by their
// values. Syntaxes without quotes take their values as plain text.
std::vector<std::string> StringParameters(const Tool& tool);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_CALL_SYNTAX_H_
