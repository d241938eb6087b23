// Reads the requests of Anthropic's dialect. docs/http.md has the table of
// their parameters.
#ifndef PLIMSOLL_SERVICES_HTTP_DIALECTS_ANTHROPIC_REQUEST_H_
#define PLIMSOLL_SERVICES_HTTP_DIALECTS_ANTHROPIC_REQUEST_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plimsoll/v1/generation.pb.h"
#include "services/http/json.h"
#include "services/http/text_job.h"

namespace plimsoll::services {

// The body of /v1/messages.
// Errors: kInvalidArgument naming the parameter, also if it is unknown.
absl::StatusOr<TextJob> ReadMessages(const Json& body);

// The body of /v1/messages/count_tokens: a model's name and a conversation.
// Errors: as above.
absl::Status ReadMessagesToCount(JsonFields& fields,
                                 v1::StreamGenerateRequest& request);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_DIALECTS_ANTHROPIC_REQUEST_H_
