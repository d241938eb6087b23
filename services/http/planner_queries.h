// The planner's queries over HTTP: calls of PlannerService that change nothing
// and have one reply, as POST /plimsoll.v1.PlannerService/METHOD with the
// request as JSON of Protocol Buffers.
#ifndef PLIMSOLL_SERVICES_HTTP_PLANNER_QUERIES_H_
#define PLIMSOLL_SERVICES_HTTP_PLANNER_QUERIES_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/http/http_message.h"
#include "services/http/http_models.h"
#include "services/http/text_call.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace plimsoll::services {

inline constexpr absl::string_view kPlannerPath =
    "/plimsoll.v1.PlannerService/";

// A planner, in this process or another one. Thread-safe.
class PlannerQueries {
 public:
  virtual ~PlannerQueries() = default;
  // Answers `method`, such as "Plan". `request` and `response` are messages of
  // this method. Errors: those of the call; those of the caller's stop.
  virtual absl::Status Ask(absl::string_view method,
                           const google::protobuf::Message& request,
                           google::protobuf::Message& response,
                           const TokenCaller& caller) = 0;
};

// Answers a query on the pool, because it may take long.
void AnswerPlannerQuery(const HttpRoom& room, HttpRequest request,
                        std::shared_ptr<HttpReply> reply);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_PLANNER_QUERIES_H_
