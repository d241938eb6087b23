// Reads a conversation and its tools in OpenAI's dialect. Ollama's has the same
// form of tools.
#ifndef PLIMSOLL_SERVICES_HTTP_DIALECTS_CHAT_MESSAGES_H_
#define PLIMSOLL_SERVICES_HTTP_DIALECTS_CHAT_MESSAGES_H_

#include "absl/status/status.h"
#include "plimsoll/v1/common.pb.h"
#include "services/http/json.h"

namespace plimsoll::services {

// Reads "messages", "tools", "tool_choice" and "parallel_tool_calls". The tool
// that answers a call is found by the call's id.
// Errors: kInvalidArgument naming the field.
absl::Status ReadConversation(JsonFields& fields, v1::ChatPrompt& chat);

// Reads "tools". Errors: as above.
absl::Status ReadFunctions(JsonFields& fields, v1::ChatPrompt& chat);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_DIALECTS_CHAT_MESSAGES_H_
