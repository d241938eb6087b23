// Tool calls of a model: turns the text between a reply's markers into a name
// and JSON.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_TOOL_CALL_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_TOOL_CALL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
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

// A call that was found in a reply.
struct ReadToolCall {
  absl::StatusOr<ToolCall> call;  // an error if the call is invalid
  std::string text;               // the model's own text, beside an error
};

// Limits; each has a test at it and one past it.
inline constexpr int64_t kMaxTools = 64;          // in a conversation
inline constexpr int64_t kMaxToolBytes = 65'536;  // name, text and parameters
inline constexpr int64_t kMaxToolNameBytes = 64;
inline constexpr int64_t kMaxToolCalls = 64;          // in one message
inline constexpr int64_t kMaxToolCallBytes = 65'536;  // in a call's text
inline constexpr int kMaxToolCallDepth = 64;          // lists and objects

// Stands for the mark around strings in a call's text. UTF-8 never has this
// byte, so no text can contain it.
inline constexpr char kEscapeMark = '\xFF';

// True for a letter or '_', followed by letters, digits, '_', '-' and '.';
// ASCII, at most kMaxToolNameBytes.
bool IsToolName(absl::string_view name);
// Errors: kInvalidArgument with the name, if IsToolName is false.
absl::Status CheckToolName(absl::string_view name);

// Writes `text` as a JSON string. Ill-formed UTF-8 becomes U+FFFD.
std::string JsonString(absl::string_view text);

// Parses the text between the marks of a call, "call:NAME{key:value,...}", with
// kEscapeMark around strings. A value is such a string, a JSON number, true,
// false, null, [a,b] or {key:value}; a key is a string or plain text. White
// space between them is ignored. FunctionGemma and Gemma 4 were trained on this
// syntax.
// Errors: kInvalidArgument with the fault.
absl::StatusOr<ToolCall> ParseToolCall(absl::string_view text);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_TOOL_CALL_H_
