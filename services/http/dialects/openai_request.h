// Reads the requests of OpenAI's dialect. docs/http.md has the table of their
// parameters.
#ifndef PLIMSOLL_SERVICES_HTTP_DIALECTS_OPENAI_REQUEST_H_
#define PLIMSOLL_SERVICES_HTTP_DIALECTS_OPENAI_REQUEST_H_

#include "absl/status/statusor.h"
#include "services/http/json.h"
#include "services/http/text_job.h"

namespace plimsoll::services {

// The body of /v1/chat/completions.
// Errors: kInvalidArgument naming the parameter, also if it is unknown.
absl::StatusOr<TextJob> ReadChatCompletion(const Json& body);

// The body of /v1/completions. Errors: as above.
absl::StatusOr<TextJob> ReadCompletion(const Json& body);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_DIALECTS_OPENAI_REQUEST_H_
