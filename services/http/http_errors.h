// Errors in HTTP: a status, and a body in OpenAI's form.
#ifndef PLIMSOLL_SERVICES_HTTP_HTTP_ERRORS_H_
#define PLIMSOLL_SERVICES_HTTP_HTTP_ERRORS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/http/http_message.h"

namespace plimsoll::services {

// Returns the HTTP status for `status`, which is an error.
int HttpStatusOf(const absl::Status& status);

// Returns the message of `status` in HTTP's words. It contains no path and no
// address.
std::string ErrorMessage(const absl::Status& status);

// Returns {"error": {"message", "type", "param", "code"}} as text. `param` is
// the field that the message begins with, and `code` is the reason of the
// error's details, in OpenAI's words if there are any.
std::string ErrorBody(const absl::Status& status);

// The reply for `status`, with Retry-After if the client should try again.
HttpResponse ErrorResponse(const absl::Status& status);

// The reply for an error of the transport.
HttpResponse ErrorResponse(int status, absl::string_view message);
// The reply for a path that takes only the methods `allowed`, such as "GET,
// HEAD".
HttpResponse WrongMethod(const std::string& allowed);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_HTTP_ERRORS_H_
