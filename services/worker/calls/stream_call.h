// One call that streams text: the bridge from an engine's step thread to gRPC's
// threads.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_STREAM_CALL_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_STREAM_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "plimsoll/v1/generation.pb.h"
#include "services/server/call.h"
#include "services/server/reader_alarm.h"
#include "services/wire/chat_tools.h"
#include "services/worker/calls/generation.h"
#include "services/worker/calls/preparation.h"
#include "services/worker/models/model_registry.h"
#include "worker/engine/engine.h"

namespace plimsoll::services {

// At most one write is in flight and at most kMaxPending chunks of
// kMaxPendingBytes wait, so a client that does not read costs a bounded amount
// of memory, which it has taken before; one that has not read for the reader
// timeout is cancelled.
//
// Lifetime: gRPC and the engine each hold one reference; gRPC's ends in OnDone.
template <typename Request, typename Response>
class StreamCall final
    : public grpc::ServerWriteReactor<Response>,
      public worker::TokenSink,
      public std::enable_shared_from_this<StreamCall<Request, Response>> {
 public:
  static constexpr size_t kMaxPending = 16;
  static constexpr size_t kMaxPendingBytes = 64 << 10;
  // What a stream holds for messages that wait, beside its first one, without
  // asking for more.
  static constexpr int64_t kPendingBytes = 16 << 10;

  // Starts the call; what is returned lives until OnDone.
  static StreamCall* Start(grpc::CallbackServerContext& context,
                           ModelRegistry& registry, const CallLimits& limits,
                           WorkPool& pool, const Request& request);

  // From the step thread.
  bool OnOutput(worker::StepOutput& output) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnEnd(const absl::Status& status,
             const worker::FinishInfo& info) override ABSL_LOCKS_EXCLUDED(mu_);
  bool Abandoned() const override ABSL_LOCKS_EXCLUDED(mu_);

  // From gRPC: the front of `pending_` was sent, or (not `ok`) the stream is
  // gone.
  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mu_);
  void OnDone() override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  StreamCall(grpc::CallbackServerContext& context, const CallLimits& limits,
             WorkPool& pool);

  absl::Status Begin(ModelRegistry& registry, const Request& request)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Whether one more message may wait, of at most so many bytes on the wire.
  bool HasRoom(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Push(Response message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FinishIfSent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  grpc::CallbackServerContext& context_;  // until Finish
  const absl::Time start_;
  const std::string request_id_;
  Preparation preparation_;
  CallGate::Pass pass_;
  // One thread at a time: that which begins; then those that have the lock.
  ByteBudget::Share held_;
  mutable absl::Mutex mu_;
  // Held for the request and the first message, until the end.
  int64_t held_at_first_ ABSL_GUARDED_BY(mu_) = 0;
  LoadedModel::Use model_ ABSL_GUARDED_BY(mu_);  // until OnEnd
  ReplyTools tools_ ABSL_GUARDED_BY(mu_);        // looked at until OnEnd
  // For the first message; then empty.
  std::optional<v1::PromptInfo> prompt_ ABSL_GUARDED_BY(mu_);
  // The front is being written; the rest wait.
  std::deque<Response> pending_ ABSL_GUARDED_BY(mu_);
  size_t pending_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  bool is_cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool is_finished_ ABSL_GUARDED_BY(mu_) = false;
  ReaderAlarm slow_reader_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<StreamCall> grpc_reference_;  // released in OnDone
};

using GenerateStream =
    StreamCall<v1::StreamGenerateRequest, v1::StreamGenerateResponse>;
using ChatStream = StreamCall<v1::ChatRequest, v1::ChatResponse>;

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_STREAM_CALL_H_
