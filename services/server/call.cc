#include "services/server/call.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "services/host/log.h"
#include "services/host/random_id.h"
#include "services/host/request_scope.h"
#include "services/server/peer.h"
#include "services/server/request_id.h"

namespace plimsoll::services {
namespace {

// A unary call that is answered from the pool. Until it ends, it waits for what
// comes before its work, or its work is queued or runs.
class PooledCall final : public UnaryReply {
 public:
  PooledCall(grpc::CallbackServerContext& context, const PoolRoom& room,
             const UnaryMessages& messages, PooledWork work)
      : UnaryReply(context, room.limits.reader_timeout, messages,
                   EnterCall(context, room.limits)),
        pool_(room.pool),
        peer_(PeerOf(context.peer())),
        request_bytes_(messages.request.ByteSizeLong()),
        cost_(work.cost),
        stop_(NewCallStop(context, room.limits.unary_deadline)),
        answer_(std::move(work.answer)) {}

  void Start(const grpc::CallbackServerContext& context, CallGate& gate,
             const google::protobuf::Message& request,
             const BeforeAnswer& before) {
    if (const absl::Status begun = Begin(context, gate, request); !begun.ok()) {
      return End(begun);
    }
    if (before == nullptr) return Queue();
    before([this](const absl::Status& status) {
      if (!status.ok()) return End(status);
      Queue();
    });
  }

  // gRPC calls it at the deadline too.
  void OnCancel() noexcept override { pool_.Cancel(*stop_); }

 private:
  absl::Status Begin(const grpc::CallbackServerContext& context, CallGate& gate,
                     const google::protobuf::Message& request) {
    ASSIGN_OR_RETURN(pass_, BeginCall(context, gate));
    return held().Grow(MemoryOf(request));
  }
  void Queue() {
    const absl::Status queued =
        pool_.Submit({.peer = peer_,
                      .cost = cost_,
                      .stop = stop_,
                      .work =
                          [this](const absl::Status& admitted) {
                            End(admitted.ok() ? Answer() : admitted);
                          },
                      .request_bytes = request_bytes_});
    if (!queued.ok()) End(queued);
  }
  absl::Status Answer() {
    const RequestScope scope(request_id());
    return WithinMemory(
        [this] { return answer_([this] { return stop_->Check(); }, held()); });
  }

  WorkPool& pool_;
  const std::string peer_;
  const size_t request_bytes_;
  const WorkCost cost_;
  const std::shared_ptr<CallStop> stop_;
  const PooledAnswer answer_;
  CallGate::Pass pass_;
};

void LogRefusal(const absl::Status& status, absl::string_view request_id) {
  Log(LogLevel::kWarning, "a request was refused",
      {{"request_id", std::string(request_id)},
       {"status", absl::StatusCodeToString(status.code())},
       {"reason", v1::ErrorReason_Name(DetailsOf(status).reason)}});
}

void LogFailure(const absl::Status& status, absl::string_view request_id) {
  Log(LogLevel::kError, "a request has failed",
      {{"request_id", std::string(request_id)},
       {"status", absl::StatusCodeToString(status.code())},
       {"error", std::string(status.message())}});
}

}  // namespace

void LogCallEnd(const absl::Status& status, absl::string_view request_id) {
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return LogRefusal(status, request_id);
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnknown:
      return LogFailure(status, request_id);
    default:
      return;
  }
}

grpc::Status EndOfCall(const absl::Status& status,
                       absl::string_view request_id) {
  LogCallEnd(status, request_id);
  return ToGrpc(status, request_id);
}

std::string TakeRequestId(const grpc::CallbackServerContext& context) {
  std::string id;
  const auto& metadata = context.client_metadata();
  if (const auto found =
          metadata.find({kRequestIdKey.data(), kRequestIdKey.size()});
      found != metadata.end()) {
    id.assign(found->second.data(), found->second.size());
  }
  if (!IsGoodRequestId(id)) id = RandomId();
  return id;
}

void SendRequestId(grpc::CallbackServerContext& context,
                   const std::string& id) {
  context.AddInitialMetadata(std::string(kRequestIdKey), id);
}

absl::Duration TimeLeft(const grpc::CallbackServerContext& context) {
  const gpr_timespec deadline = context.raw_deadline();
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) >= 0) {
    return absl::InfiniteDuration();
  }
  const gpr_timespec left =
      gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  return absl::DurationFromTimespec({left.tv_sec, left.tv_nsec});
}

absl::StatusOr<CallGate::Pass> BeginCall(
    const grpc::CallbackServerContext& context, CallGate& gate) {
  if (TimeLeft(context) <= absl::ZeroDuration()) {
    return absl::DeadlineExceededError("the call's deadline has passed");
  }
  return gate.Enter();
}

ByteBudget::Share EnterCall(const grpc::CallbackServerContext& context,
                            const CallLimits& limits) {
  return limits.messages.Enter(PeerOf(context.peer()));
}

std::shared_ptr<CallStop> NewCallStop(
    const grpc::CallbackServerContext& context, absl::Duration most) {
  return std::make_shared<CallStop>(std::min(TimeLeft(context), most));
}

int64_t MemoryOf(const google::protobuf::Message& message) {
  return static_cast<int64_t>(message.SpaceUsedLong());
}

int64_t MemoryOfReply(const google::protobuf::Message& reply) {
  return MemoryOf(reply) + static_cast<int64_t>(reply.ByteSizeLong());
}

void Free(const google::protobuf::Message& message) {
  const std::unique_ptr<google::protobuf::Message> empty(message.New());
  message.GetReflection()->Swap(
      const_cast<google::protobuf::Message*>(&message), empty.get());
}

UnaryReply::UnaryReply(grpc::CallbackServerContext& context,
                       absl::Duration reader_timeout,
                       const UnaryMessages& messages, ByteBudget::Share held)
    : context_(context),
      request_id_(TakeRequestId(context)),
      messages_(messages),
      held_(std::move(held)),
      slow_reader_(context, reader_timeout) {}

absl::Status UnaryReply::ResizeShare(const absl::Status& status) {
  if (MemoryOf(messages_.request) > kUncountedBytes) Free(messages_.request);
  const int64_t bytes = status.ok() ? MemoryOfReply(messages_.response) : 0;
  if (bytes > kUncountedBytes) return held_.Resize(bytes);
  held_.Shrink(bytes);
  return status;
}

void UnaryReply::End(const absl::Status& status) {
  const absl::Status end = ResizeShare(status);
  if (end.ok()) {
    SendRequestId(context_, request_id_);
  } else {
    Free(messages_.response);
    held_.Shrink(0);
  }
  // This comes first: the reply may be gone once it is finished.
  slow_reader_.Start();
  Finish(EndOfCall(end, request_id_));
}

grpc::ServerUnaryReactor* AnswerOnPool(grpc::CallbackServerContext* context,
                                       const PoolRoom& room,
                                       const UnaryMessages& messages,
                                       PooledWork work) {
  const BeforeAnswer before = std::exchange(work.before, nullptr);
  auto* call = new PooledCall(*context, room, messages, std::move(work));
  call->Start(*context, room.limits.gate, messages.request, before);
  return call;
}

}  // namespace plimsoll::services
