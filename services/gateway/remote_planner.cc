#include "services/gateway/remote_planner.h"

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/sync/fault.h"
#include "base/sync/steady_notification.h"
#include "services/gateway/worker_answers.h"
#include "services/server/access/keepalive.h"
#include "services/wire/broken_connection.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address,
                                         const ClientSecurity& security) {
  grpc::ChannelArguments arguments;
  SetKeepalive(arguments);
  return grpc::CreateCustomChannel(
      address, NewChannelCredentials(security, address), arguments);
}

constexpr absl::Duration kPlannerRetry = absl::Seconds(1);

// The error for the client. gRPC's own words, of a planner that is not there or
// does not answer in time, have the planner's address.
absl::Status PlannerError(const grpc::Status& status) {
  const bool is_silent =
      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED &&
      status.error_details().empty();
  if (!is_silent && !IsGone(status)) return FromGrpc(status);
  return WithDetails(absl::UnavailableError("the planner does not answer"),
                     {v1::ERROR_REASON_PLANNER_UNAVAILABLE, {}, kPlannerRetry});
}

bool Parse(const grpc::ByteBuffer& buffer, google::protobuf::Message& message) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return false;
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return message.ParseFromString(bytes);
}

}  // namespace

RemotePlanner::RemotePlanner(const std::string& address,
                             const ClientSecurity& security)
    : stub_(ChannelTo(address, security)) {}

absl::Status RemotePlanner::Ask(absl::string_view method,
                                const google::protobuf::Message& request,
                                google::protobuf::Message& response,
                                const TokenCaller& caller) {
  grpc::ClientContext context;
  AddCaller(caller.request, context);
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMilliseconds(kTime));
  const std::string path = absl::StrCat(kPlannerPath, method);
  const grpc::Slice slice(request.SerializeAsString());
  const grpc::ByteBuffer asked(&slice, 1);
  grpc::ByteBuffer answered;
  grpc::Status status;
  SteadyNotification done;
  stub_.UnaryCall(&context, path, {}, &asked, &answered,
                  [&](const grpc::Status& ended) {
                    status = ended;
                    done.Notify();
                  });
  RETURN_IF_ERROR(AwaitAnswer(done, context, caller.stop));
  if (PLIMSOLL_FAULT("gateway.planner")) status = BrokenConnection();
  if (!status.ok()) return PlannerError(status);
  if (Parse(answered, response)) return absl::OkStatus();
  return absl::InternalError("the planner's answer is no message");
}

}  // namespace plimsoll::services
