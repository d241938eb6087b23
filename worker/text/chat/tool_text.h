// Tools, calls and responses as FunctionGemma reads them: the text between its
// markers, with kEscapeMark where the token <escape> goes.
#ifndef PLIMSOLL_WORKER_TEXT_CHAT_TOOL_TEXT_H_
#define PLIMSOLL_WORKER_TEXT_CHAT_TOOL_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/text/chat/tool_call.h"

namespace plimsoll::worker {

// "declaration:NAME{description:...,parameters:{...}}". Of the schema the
// keywords description, enum, items, nullable, properties, required and type
// are shown, the others are left out. Keys are sorted as the format's template
// sorts them, types are upper-case.
// Errors: kInvalidArgument for a name that is none, beyond kMaxToolBytes, or
// for parameters that are no JSON schema of an object.
// Source: MODELS.md 5.1, FunctionGemma.
absl::StatusOr<std::string> WriteToolDeclaration(const Tool& tool);

// "call:NAME{...}", which ParseToolCall reads again.
// Errors: kInvalidArgument for a name that is none, beyond kMaxToolCallBytes,
// or if the arguments are not a JSON object.
absl::StatusOr<std::string> WriteToolCall(const ToolCall& call);

// "response:NAME{...}": a JSON object's members, or any other JSON as `value`.
// Errors: kInvalidArgument for a name that is none, or if `json` is not JSON.
absl::StatusOr<std::string> WriteToolResponse(absl::string_view name,
                                              absl::string_view json);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_CHAT_TOOL_TEXT_H_
