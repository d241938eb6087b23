// Writes replies and errors in Anthropic's dialect.
#ifndef PLIMSOLL_SERVICES_HTTP_DIALECTS_ANTHROPIC_REPLY_H_
#define PLIMSOLL_SERVICES_HTTP_DIALECTS_ANTHROPIC_REPLY_H_

#include <memory>

#include "absl/status/status.h"
#include "services/http/http_message.h"
#include "services/http/text_job.h"

namespace plimsoll::services {

// Replies of /v1/messages. A request has one prompt and one reply.
std::unique_ptr<ReplyFormat> NewMessagesFormat(const TextJob& job,
                                               ReplyHead head);

// The reply for `status`: {"type": "error", "error": {"type", "message"}}.
HttpResponse AnthropicError(const absl::Status& status);

// Appends an event whose only purpose is to show that the connection is alive.
void AppendPing(int percent, std::string& events);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_DIALECTS_ANTHROPIC_REPLY_H_
