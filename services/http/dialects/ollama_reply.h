// Writes replies and errors in Ollama's dialect.
#ifndef PLIMSOLL_SERVICES_HTTP_DIALECTS_OLLAMA_REPLY_H_
#define PLIMSOLL_SERVICES_HTTP_DIALECTS_OLLAMA_REPLY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/http/http_message.h"
#include "services/http/text_job.h"

namespace plimsoll::services {

// Replies of /api/chat and of /api/generate. A stream is a JSON object a line.
std::unique_ptr<ReplyFormat> NewOllamaChatFormat(const TextJob& job,
                                                 ReplyHead head);
std::unique_ptr<ReplyFormat> NewOllamaGenerateFormat(const TextJob& job,
                                                     ReplyHead head);

// The reply for `status`: {"error": MESSAGE}.
HttpResponse OllamaError(const absl::Status& status);

// A time as Ollama writes it, in UTC.
std::string OllamaTime(absl::Time time);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_DIALECTS_OLLAMA_REPLY_H_
