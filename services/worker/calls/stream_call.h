// One call that streams text, of a request or of a session.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_STREAM_CALL_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_STREAM_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "plimsoll/v1/generation.pb.h"
#include "plimsoll/v1/session.pb.h"
#include "services/worker/calls/call_reactor.h"
#include "services/worker/calls/pending_messages.h"
#include "worker/engine/engine.h"

namespace plimsoll::services {

// At most one write is in flight, and PendingMessages bounds what waits, so a
// client that does not read costs a bounded amount of memory, which it has
// taken before; one that has not read for the reader timeout is cancelled.
template <typename Request, typename Response>
class StreamCall final
    : public CallReactor<grpc::ServerWriteReactor<Response>> {
 public:
  // The bytes that a stream holds from the start for messages that wait, in
  // addition to those of its first message.
  static constexpr int64_t kPendingBytes = 16 << 10;

  // Starts the call; what is returned lives until OnDone.
  static StreamCall* Start(grpc::CallbackServerContext& context,
                           const CallRoom& room, const Request& request);

  // From gRPC: the front of `pending_` was sent, or (not `ok`) the stream is
  // gone.
  void OnWriteDone(bool ok) noexcept override;

 private:
  using Base = CallReactor<grpc::ServerWriteReactor<Response>>;
  using Base::held_;
  using Base::is_abandoned_;
  using Base::model_;
  using Base::mu_;
  using Base::slow_reader_;

  StreamCall(grpc::CallbackServerContext& context, const CallRoom& room)
      : Base(context, room) {}

  absl::Status Begin(const Request& request, ServedModel model)
      ABSL_LOCKS_EXCLUDED(mu_);
  bool Deliver(worker::StepOutput& output) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Complete(const absl::Status& status,
                const worker::FinishInfo& info) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns whether one more message, of at most `bytes` bytes on the wire, may
  // wait.
  bool HasRoom(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Push(Response message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FinishIfSent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Held for the request and the first message, until the end.
  int64_t held_at_first_ ABSL_GUARDED_BY(mu_) = 0;
  // For the first message; then empty.
  std::optional<v1::PromptInfo> prompt_ ABSL_GUARDED_BY(mu_);
  PendingMessages<Response> pending_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  bool is_finished_ ABSL_GUARDED_BY(mu_) = false;
};

using GenerateStream =
    StreamCall<v1::StreamGenerateRequest, v1::StreamGenerateResponse>;
using ChatStream = StreamCall<v1::ChatRequest, v1::ChatResponse>;

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_STREAM_CALL_H_
