// The parts that all calls share: the gate, the request id, the error details,
// and the memory that is held until the reply is sent.
#ifndef PLIMSOLL_SERVICES_SERVER_CALL_H_
#define PLIMSOLL_SERVICES_SERVER_CALL_H_

#include <google/protobuf/message.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/stop_check.h"
#include "services/host/memory_guard.h"
#include "services/host/request_scope.h"
#include "services/server/byte_budget.h"
#include "services/server/call_gate.h"
#include "services/server/call_stop.h"
#include "services/server/reader_alarm.h"
#include "services/server/request_id.h"
#include "services/server/server.h"
#include "services/server/work_pool.h"
#include "services/wire/errors.h"

namespace plimsoll::services {

// Messages of at most this size that wait to be sent never make a call fail,
// because gRPC itself takes as much for any call.
inline constexpr int64_t kUncountedBytes = 16 << 10;

// The objects that the calls of one server share. They outlive the calls.
struct CallLimits {
  CallGate& gate;
  ByteBudget& messages;
  // A call whose client reads nothing for this long is cancelled.
  absl::Duration reader_timeout;
  // The most time that a unary call's work may take, even if its client allows
  // more.
  absl::Duration unary_deadline = kUnaryDeadline;
};

// Returns the call's x-request-id if it is printable and short, else a new one.
std::string TakeRequestId(const grpc::CallbackServerContext& context);

// Sends the id back in the initial metadata. It is called once, before the
// first message or the reply. A call that is refused has the id in its error
// only: a client's gRPC may repeat a call as long as it has no initial
// metadata.
void SendRequestId(grpc::CallbackServerContext& context, const std::string& id);

// The time until the call's deadline; infinite if it has none. It uses the
// clock of gRPC's deadlines, which does not jump.
absl::Duration TimeLeft(const grpc::CallbackServerContext& context);

// Enters the gate.
// Errors: kUnavailable while draining; kDeadlineExceeded if the deadline has
// passed.
absl::StatusOr<CallGate::Pass> BeginCall(
    const grpc::CallbackServerContext& context, CallGate& gate);

// Writes a line with the request's id if the server refused the request
// (because of memory, a queue, a quota, a drain or the caller) or failed at it.
// Mistakes of clients, deadlines and cancellations cause no line. A line has no
// data of the caller except the id.
void LogCallEnd(const absl::Status& status, absl::string_view request_id);

// Calls LogCallEnd, then ToGrpc. Returns the status with which the call ends.
grpc::Status EndOfCall(const absl::Status& status,
                       absl::string_view request_id);

// The call's share of the memory of messages. It is empty at first.
ByteBudget::Share EnterCall(const grpc::CallbackServerContext& context,
                            const CallLimits& limits);

// Stops the work of the call at its deadline, or after `most` from now.
std::shared_ptr<CallStop> NewCallStop(
    const grpc::CallbackServerContext& context,
    absl::Duration most = kUnaryDeadline);

// Bytes that a message takes in memory.
int64_t MemoryOf(const google::protobuf::Message& message);

// Bytes that a reply takes in memory: the message, and its bytes to be sent.
int64_t MemoryOfReply(const google::protobuf::Message& reply);

// Frees the memory of a message. gRPC keeps requests until their calls are done
// and passes them as const; nobody may read this one again.
void Free(const google::protobuf::Message& message);

// gRPC owns the messages of a unary call until the call is done.
struct UnaryMessages {
  const google::protobuf::Message& request;
  google::protobuf::Message& response;
};

// A unary call. It holds the memory of its messages until gRPC has sent the
// reply, and it is cancelled if its client does not read the reply.
//
// gRPC owns it until OnDone, which follows End.
class UnaryReply : public grpc::ServerUnaryReactor {
 public:
  // gRPC owns the messages until OnDone. `held` is the call's share.
  UnaryReply(grpc::CallbackServerContext& context,
             absl::Duration reader_timeout, const UnaryMessages& messages,
             ByteBudget::Share held);

  const std::string& request_id() const { return request_id_; }
  // The call's share; the code that answers may grow it.
  ByteBudget::Share& held() { return held_; }
  // Sends the response if `status` is OK and there is memory for it, else the
  // status. Afterwards this object may be gone, and the request must not be
  // read.
  void End(const absl::Status& status);

  void OnDone() noexcept override { delete this; }

 private:
  // Sets the share to the bytes that are held until OnDone.
  absl::Status ResizeShare(const absl::Status& status);

  grpc::CallbackServerContext& context_;  // until Finish
  const std::string request_id_;
  const UnaryMessages messages_;
  ByteBudget::Share held_;
  ReaderAlarm slow_reader_;
};

// Answers a unary call at once, on gRPC's thread. `answer()` fills the response
// and returns an absl::Status. It may also be `answer(held)`, which may grow
// the call's share. It must not block or compute for long.
template <typename Answer>
grpc::ServerUnaryReactor* AnswerUnary(grpc::CallbackServerContext* context,
                                      const CallLimits& limits,
                                      const UnaryMessages& messages,
                                      const Answer& answer) {
  auto* reply = new UnaryReply(*context, limits.reader_timeout, messages,
                               EnterCall(*context, limits));
  const absl::StatusOr<CallGate::Pass> pass = BeginCall(*context, limits.gate);
  absl::Status status = pass.status();
  if (status.ok()) {
    const RequestScope scope(reply->request_id());
    status = WithinMemory([&] {
      if constexpr (std::is_invocable_v<Answer, ByteBudget::Share&>) {
        return answer(reply->held());
      } else {
        return answer();
      }
    });
  }
  reply->End(status);
  return reply;
}

// Fills the response of a call. It may check whether the client still waits,
// and may grow the call's share.
using PooledAnswer = std::function<absl::Status(StopCheck, ByteBudget::Share&)>;
// A step that must end before a call's answer is queued. It calls `go_on` once,
// at once or later: with OK, or with the error that the call ends with.
using BeforeAnswer =
    std::function<void(std::function<void(const absl::Status&)> go_on)>;

// The parts that answer long calls. Both outlive the server.
struct PoolRoom {
  const CallLimits& limits;
  WorkPool& pool;
};
// The work of a unary call that is answered from a pool.
struct PooledWork {
  WorkCost cost;
  PooledAnswer answer;
  BeforeAnswer before = nullptr;
};

// Answers a unary call from the pool: `work.answer` runs on one of its threads.
// The messages live until the answer returns. Everything else that the answer
// uses must outlive the server. The call holds its pass of the gate until it is
// done, and the memory of its request while it waits.
grpc::ServerUnaryReactor* AnswerOnPool(grpc::CallbackServerContext* context,
                                       const PoolRoom& room,
                                       const UnaryMessages& messages,
                                       PooledWork work);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_CALL_H_
