// Reads calls in Python's syntax.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_PYTHON_CALLS_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_PYTHON_CALLS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/chat/tool_call.h"

namespace plimsoll::worker {

// Reads a list of calls, "[f(a=1, b='x'), g()]", or one call without brackets.
// A value is a string in either kind of quotes, a number, True, False, None, a
// list or a dict; JSON's true, false and null are accepted too.
// Errors: kInvalidArgument with the fault, also beyond kMaxToolCallDepth.
absl::StatusOr<std::vector<ToolCall>> ParsePythonCalls(absl::string_view text);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_PYTHON_CALLS_H_
