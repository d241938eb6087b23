// A request whose body is JSON and whose reply is one JSON value.
#ifndef PLIMSOLL_SERVICES_HTTP_JSON_CALL_H_
#define PLIMSOLL_SERVICES_HTTP_JSON_CALL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "services/http/http_message.h"
#include "services/http/http_models.h"
#include "services/http/json.h"
#include "services/http/text_call.h"

namespace plimsoll::services {

// The handler of a path, and its form of errors.
struct JsonPath {
  // Answers the fields of a body.
  absl::StatusOr<Json> (*answer)(HttpModels& models, JsonFields& fields,
                                 const TokenCaller& caller);
  ErrorWriter error;
  // True if an answer takes long or waits for other processes. Such an answer
  // is never made on the server's thread, and quick work never waits for it.
  bool is_long = false;
};

// Answers `request` by `reply`: a small request at once, a large one on the
// pool.
void AnswerJson(const HttpRoom& room, const JsonPath& path, HttpRequest request,
                std::shared_ptr<HttpReply> reply);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_JSON_CALL_H_
