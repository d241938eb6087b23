// Writes replies in OpenAI's dialect.
#ifndef PLIMSOLL_SERVICES_HTTP_DIALECTS_OPENAI_REPLY_H_
#define PLIMSOLL_SERVICES_HTTP_DIALECTS_OPENAI_REPLY_H_

#include <memory>

#include "services/http/text_job.h"

namespace plimsoll::services {

// Replies of /v1/chat/completions, with the parts that `job` asks for.
std::unique_ptr<ReplyFormat> NewChatFormat(const TextJob& job, ReplyHead head);

// Replies of /v1/completions.
std::unique_ptr<ReplyFormat> NewCompletionFormat(const TextJob& job,
                                                 ReplyHead head);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_DIALECTS_OPENAI_REPLY_H_
