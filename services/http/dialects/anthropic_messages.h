// Reads a conversation and its tools in Anthropic's dialect.
#ifndef PLIMSOLL_SERVICES_HTTP_DIALECTS_ANTHROPIC_MESSAGES_H_
#define PLIMSOLL_SERVICES_HTTP_DIALECTS_ANTHROPIC_MESSAGES_H_

#include "absl/status/status.h"
#include "plimsoll/v1/common.pb.h"
#include "services/http/json.h"

namespace plimsoll::services {

// Reads "system", "messages", "tools" and "tool_choice". Texts of a message are
// joined without a separator. Consecutive messages of one role are joined with
// an empty line between them. The id of a result's call tells which tool the
// result is from.
// Errors: kInvalidArgument naming the field.
absl::Status ReadAnthropicConversation(JsonFields& fields,
                                       v1::ChatPrompt& chat);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_DIALECTS_ANTHROPIC_MESSAGES_H_
