// What every call has in common: the gate, the request id, the error details.
#ifndef PLIMSOLL_SERVICES_SERVER_CALL_H_
#define PLIMSOLL_SERVICES_SERVER_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/stop_check.h"
#include "services/server/call_gate.h"
#include "services/server/call_stop.h"
#include "services/server/work_pool.h"
#include "services/wire/errors.h"

namespace plimsoll::services {

// Of an x-request-id that we take over; another gets a new one.
inline constexpr size_t kMaxRequestIdBytes = 128;
// What a unary call without a deadline gets.
inline constexpr absl::Duration kUnaryDeadline = absl::Minutes(10);

// The call's x-request-id if it is printable and short, else a new one. It is
// sent back in the initial metadata.
std::string TakeRequestId(grpc::CallbackServerContext& context);

// Time that is left of the call; infinite if it has no deadline.
absl::Duration TimeLeft(const grpc::CallbackServerContext& context);

// Enters the gate.
// Errors: kUnavailable while draining; kDeadlineExceeded if nobody waits.
absl::StatusOr<CallGate::Pass> BeginCall(
    const grpc::CallbackServerContext& context, CallGate& gate);

// What stops the work of the call: its deadline, or kUnaryDeadline from now.
std::shared_ptr<CallStop> NewCallStop(
    const grpc::CallbackServerContext& context);

// The host that calls, without its port: whose turn a call takes.
std::string PeerHost(const grpc::CallbackServerContext& context);

// Answers a unary call at once, on gRPC's thread: `answer()` fills the response
// and returns an absl::Status. It must not block, nor compute for long.
template <typename Answer>
grpc::ServerUnaryReactor* AnswerUnary(grpc::CallbackServerContext* context,
                                      CallGate& gate, const Answer& answer) {
  const std::string request_id = TakeRequestId(*context);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::StatusOr<CallGate::Pass> pass = BeginCall(*context, gate);
  const absl::Status status = pass.ok() ? answer() : pass.status();
  reactor->Finish(ToGrpc(status, request_id));
  return reactor;
}

// Answers a unary call from the pool: `answer(stop)` fills the response on one
// of its threads, and may ask `stop` whether the client still waits. The
// request and the response live as long as it runs; what else it uses must
// outlive the server, as `gate` and `pool` must. The call holds its pass of the
// gate until it has ended.
grpc::ServerUnaryReactor* AnswerOnPool(
    grpc::CallbackServerContext* context, CallGate& gate, WorkPool& pool,
    WorkCost cost, size_t request_bytes,
    std::function<absl::Status(StopCheck)> answer);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_CALL_H_
