// Writes tools, calls and responses in FunctionGemma's format: the text between
// its markers, with kEscapeMark where the token <escape> goes.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_TOOL_TEXT_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_TOOL_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/chat/tool_call.h"

namespace plimsoll::worker {

// Writes "declaration:NAME{description:...,parameters:{...}}". From the schema
// it shows the keywords description, enum, items, nullable, properties,
// required and type, and leaves the others out. Keys are sorted as the format's
// template sorts them; types are upper-case.
// Errors: kInvalidArgument for an invalid name, beyond kMaxToolBytes, or if the
// parameters are not a JSON schema of an object.
absl::StatusOr<std::string> WriteToolDeclaration(const Tool& tool);

// Writes "call:NAME{...}", which ParseToolCall can read.
// Errors: kInvalidArgument for an invalid name, beyond kMaxToolCallBytes, or if
// the arguments are not a JSON object.
absl::StatusOr<std::string> WriteToolCall(const ToolCall& call);

// Writes "response:NAME{...}": the members of a JSON object, or any other JSON
// as `value`.
// Errors: kInvalidArgument for an invalid name, or if `json` is not JSON.
absl::StatusOr<std::string> WriteToolResponse(absl::string_view name,
                                              absl::string_view json);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_TOOL_TEXT_H_
