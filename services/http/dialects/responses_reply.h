// Writes OpenAI's responses, whole and as streams of events.
#ifndef PLIMSOLL_SERVICES_HTTP_DIALECTS_RESPONSES_REPLY_H_
#define PLIMSOLL_SERVICES_HTTP_DIALECTS_RESPONSES_REPLY_H_

#include <memory>
#include <string>

#include "services/http/http_message.h"
#include "services/http/response_store.h"
#include "services/http/text_job.h"

namespace plimsoll::services {

// Replies of POST /v1/responses. A response that ends without an error is kept
// if the request says so.
std::unique_ptr<ReplyFormat> NewResponseFormat(const TextJob& job,
                                               ReplyHead head);

// The reply to GET /v1/responses/ID: 404 if there is no such response.
HttpResponse StoredResponse(const ResponseShelf& shelf, const std::string& id);
// The reply to DELETE /v1/responses/ID: as above.
HttpResponse DeletedResponse(const ResponseShelf& shelf, const std::string& id);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_DIALECTS_RESPONSES_REPLY_H_
