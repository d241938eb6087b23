// A request whose body is JSON and whose reply is one JSON value.
#ifndef PLIMSOLL_SERVICES_HTTP_JSON_CALL_H_
#define PLIMSOLL_SERVICES_HTTP_JSON_CALL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "base/stop_check.h"
#include "services/http/http_message.h"
#include "services/http/json.h"
#include "services/http/text_call.h"
#include "services/server/byte_budget.h"

namespace plimsoll::services {

// What a path does.
struct JsonPath {
  // Answers the fields of a body. It may grow `held`, which is empty.
  absl::StatusOr<Json> (*answer)(const HttpRoom& room, JsonFields& fields,
                                 StopCheck stop, ByteBudget::Share& held);
  ErrorWriter error;
};

// Answers `request` by `reply`: a small one at once, another one on the pool.
void AnswerJson(const HttpRoom& room, const JsonPath& path, HttpRequest request,
                std::shared_ptr<HttpReply> reply);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_JSON_CALL_H_
