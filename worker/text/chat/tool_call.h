// Calls that a model makes: from the text between a reply's markers to a name
// and JSON.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_TOOL_CALL_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_TOOL_CALL_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::worker {

// A function that a model may call.
struct Tool {
  std::string name;  // IsToolName
  std::string description;
  std::string parameters;  // a JSON schema of an object; empty = none
};

struct ToolCall {
  std::string name;
  std::string arguments;  // a JSON object
};

// Limits; each has a test at it and one past it.
inline constexpr int64_t kMaxTools = 64;          // of a conversation
inline constexpr int64_t kMaxToolBytes = 65'536;  // name, text and parameters
inline constexpr int64_t kMaxToolNameBytes = 64;
inline constexpr int64_t kMaxToolCalls = 64;          // of one message
inline constexpr int64_t kMaxToolCallBytes = 65'536;  // of a call's text
inline constexpr int kMaxToolCallDepth = 64;          // of lists and objects

// Stands for the token <escape> in a call's text. No UTF-8 has this byte, so it
// cannot be taken for what somebody wrote.
inline constexpr char kEscapeMark = '\xFF';

// A letter or '_', then letters, digits, '_', '-' and '.'; ASCII, at most
// kMaxToolNameBytes.
bool IsToolName(absl::string_view name);

// The call that `text` is: what is between <start_function_call> and
// <end_function_call>, as "call:NAME{key:value,...}" with kEscapeMark around
// strings. A value is such a string, a JSON number, true, false, null, [a,b] or
// {key:value}; a key is a string or plain. White space between them is ignored.
// Errors: kInvalidArgument saying what is wrong.
// Source: MODELS.md 5.1, FunctionGemma.
absl::StatusOr<ToolCall> ParseToolCall(absl::string_view text);

// `text` with "<escape>" for the marks, for people.
std::string ReadableToolText(absl::string_view text);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_TOOL_CALL_H_
