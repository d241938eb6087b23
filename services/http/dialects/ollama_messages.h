// Reads a conversation and its tools in Ollama's dialect.
#ifndef PLIMSOLL_SERVICES_HTTP_DIALECTS_OLLAMA_MESSAGES_H_
#define PLIMSOLL_SERVICES_HTTP_DIALECTS_OLLAMA_MESSAGES_H_

#include "absl/status/status.h"
#include "plimsoll/v1/common.pb.h"
#include "services/http/json.h"

namespace plimsoll::services {

// Reads "messages", which may be empty, and "tools". The tool that answers a
// call is found by its own name, by the call's id, or else by the order of the
// calls.
// Errors: kInvalidArgument naming the field.
absl::Status ReadOllamaConversation(JsonFields& fields, v1::ChatPrompt& chat);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_DIALECTS_OLLAMA_MESSAGES_H_
