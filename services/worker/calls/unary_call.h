// One Generate call: collects what an engine brings until it ends.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_UNARY_CALL_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_UNARY_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
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
#include "services/worker/models/message_bytes.h"
#include "services/worker/models/model_registry.h"
#include "worker/engine/engine.h"

namespace plimsoll::services {

// What it collects is bounded by the context of a slot or, where that rolls, by
// kMaxUnaryTokens, and by kMaxReplyBytes.
//
// Lifetime: gRPC and the engine each hold one reference; gRPC's ends in OnDone.
class UnaryCall final : public grpc::ServerUnaryReactor,
                        public worker::TokenSink,
                        public std::enable_shared_from_this<UnaryCall> {
 public:
  // Starts the call; what is returned lives until OnDone.
  static UnaryCall* Start(grpc::CallbackServerContext& context,
                          ModelRegistry& registry, const CallLimits& limits,
                          WorkPool& pool, const v1::GenerateRequest& request,
                          v1::GenerateResponse& response);

  // From the step thread.
  bool OnOutput(worker::StepOutput& output) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnEnd(const absl::Status& status,
             const worker::FinishInfo& info) override ABSL_LOCKS_EXCLUDED(mu_);
  bool Abandoned() const override ABSL_LOCKS_EXCLUDED(mu_);

  // From gRPC.
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mu_);
  void OnDone() override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  UnaryCall(grpc::CallbackServerContext& context, const CallLimits& limits,
            WorkPool& pool, v1::GenerateResponse& response);

  absl::Status Begin(grpc::CallbackServerContext& context,
                     ModelRegistry& registry,
                     const v1::GenerateRequest& request)
      ABSL_LOCKS_EXCLUDED(mu_);
  void End(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const absl::Time start_;
  const std::string request_id_;
  Preparation preparation_;
  CallGate::Pass pass_;
  ByteBudget::Share held_;  // until the meter has it
  mutable absl::Mutex mu_;
  LoadedModel::Use model_ ABSL_GUARDED_BY(mu_);  // until OnEnd
  ReplyTools tools_ ABSL_GUARDED_BY(mu_);        // looked at until OnEnd
  v1::GenerateResponse& response_ ABSL_GUARDED_BY(mu_);  // until Finish
  ReplyMeter meter_ ABSL_GUARDED_BY(mu_);
  absl::Status refusal_ ABSL_GUARDED_BY(mu_);  // of a reply that is too long
  bool is_cancelled_ ABSL_GUARDED_BY(mu_) = false;
  ReaderAlarm slow_reader_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<UnaryCall> grpc_reference_;  // released in OnDone
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_UNARY_CALL_H_
