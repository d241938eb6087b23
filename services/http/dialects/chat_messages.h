// Reads a conversation and its tools in OpenAI's dialect. Other dialects use
// the same form of tools, or a similar form.
#ifndef PLIMSOLL_SERVICES_HTTP_DIALECTS_CHAT_MESSAGES_H_
#define PLIMSOLL_SERVICES_HTTP_DIALECTS_CHAT_MESSAGES_H_

#include <string>

#include "absl/status/status.h"
#include "plimsoll/v1/common.pb.h"
#include "services/http/json.h"

namespace plimsoll::services {

// Reads "messages", "tools", "tool_choice" and "parallel_tool_calls". The tool
// that answers a call is found by the call's id.
// Errors: kInvalidArgument naming the field.
absl::Status ReadConversation(JsonFields& fields, v1::ChatPrompt& chat);

// Reads "tools". Errors of this function and of the next ones: as above.
absl::Status ReadFunctions(JsonFields& fields, v1::ChatPrompt& chat);

// The form in which an API writes a tool and the choice of a tool.
struct ToolSpelling {
  // Reads one of "tools"; `path` goes before names in errors.
  absl::Status (*read_tool)(const Json& json, const std::string& path,
                            v1::Tool& tool);
  // Reads "tool_choice" if it is an object.
  absl::Status (*read_choice)(const Json& json, v1::ChatPrompt& chat);
};

// Reads "tools", "tool_choice" and "parallel_tool_calls".
absl::Status ReadToolUse(JsonFields& fields, const ToolSpelling& spelling,
                         v1::ChatPrompt& chat);

// Reads the fields of a function: "name", "description" and "parameters".
absl::Status ReadFunction(JsonFields& function, v1::Tool& tool);

// Reads the "name" of the function that must be called.
absl::Status RequireFunction(JsonFields& function, v1::ChatPrompt& chat);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_DIALECTS_CHAT_MESSAGES_H_
