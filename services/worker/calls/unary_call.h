// One Generate call: collects what an engine brings until it ends.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_UNARY_CALL_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_UNARY_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "plimsoll/v1/generation.pb.h"
#include "services/generation/message_bytes.h"
#include "services/worker/calls/call_reactor.h"
#include "worker/engine/engine.h"

namespace plimsoll::services {

// What it collects is bounded by the context of a slot or, where that rolls, by
// kMaxUnaryTokens, and by kMaxReplyBytes.
class UnaryCall final : public CallReactor<grpc::ServerUnaryReactor> {
 public:
  // Starts the call; what is returned lives until OnDone.
  static UnaryCall* Start(grpc::CallbackServerContext& context,
                          const CallRoom& room,
                          const v1::GenerateRequest& request,
                          v1::GenerateResponse& response);

 private:
  UnaryCall(grpc::CallbackServerContext& context, const CallRoom& room,
            v1::GenerateResponse& response);

  absl::Status Begin(const v1::GenerateRequest& request, ServedModel model)
      ABSL_LOCKS_EXCLUDED(mu_);
  bool Deliver(worker::StepOutput& output) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Complete(const absl::Status& status,
                const worker::FinishInfo& info) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  v1::GenerateResponse& response_ ABSL_GUARDED_BY(mu_);  // until Finish
  ReplyMeter meter_ ABSL_GUARDED_BY(mu_);  // has what the call holds
  // Status of a reply that is too long.
  absl::Status refusal_ ABSL_GUARDED_BY(mu_);
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_UNARY_CALL_H_
