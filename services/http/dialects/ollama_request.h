// Reads the requests of Ollama's dialect. docs/http.md has the table of their
// parameters.
#ifndef PLIMSOLL_SERVICES_HTTP_DIALECTS_OLLAMA_REQUEST_H_
#define PLIMSOLL_SERVICES_HTTP_DIALECTS_OLLAMA_REQUEST_H_

#include "absl/status/statusor.h"
#include "services/http/json.h"
#include "services/http/text_job.h"

namespace plimsoll::services {

// The body of /api/chat. A body without messages asks for no reply, only
// whether the model exists.
// Errors: kInvalidArgument naming the parameter, also if it is unknown.
absl::StatusOr<TextJob> ReadOllamaChat(const Json& body);

// The body of /api/generate. A body without a prompt asks for no reply. Errors:
// as above.
absl::StatusOr<TextJob> ReadOllamaGenerate(const Json& body);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_DIALECTS_OLLAMA_REQUEST_H_
