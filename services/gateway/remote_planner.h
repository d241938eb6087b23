// Passes queries that come by HTTP to a planner.
#ifndef PLIMSOLL_SERVICES_GATEWAY_REMOTE_PLANNER_H_
#define PLIMSOLL_SERVICES_GATEWAY_REMOTE_PLANNER_H_

#include <grpcpp/generic/generic_stub.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/http/planner_queries.h"
#include "services/server/credentials.h"

namespace plimsoll::services {

class RemotePlanner final : public PlannerQueries {
 public:
  // The longest time that the planner may take to answer.
  static constexpr absl::Duration kTime = absl::Seconds(60);

  RemotePlanner(const std::string& address, const ClientSecurity& security);

  // Errors: those of the planner and of the caller's stop; kUnavailable, with a
  // time to retry, if the planner does not answer.
  absl::Status Ask(absl::string_view method,
                   const google::protobuf::Message& request,
                   google::protobuf::Message& response,
                   const TokenCaller& caller) override;

 private:
  grpc::GenericStub stub_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GATEWAY_REMOTE_PLANNER_H_
