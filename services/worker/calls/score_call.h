// One Score call: its continuations one after the other, each as a prompt that
// nothing is generated after.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_SCORE_CALL_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_SCORE_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "plimsoll/v1/generation.pb.h"
#include "services/server/call.h"
#include "services/server/reader_alarm.h"
#include "services/worker/calls/generation.h"
#include "services/worker/calls/preparation.h"
#include "services/worker/models/model_registry.h"
#include "worker/engine/engine.h"

namespace plimsoll::services {

// Of one call. Each is as long as a slot's context at most.
inline constexpr int kMaxContinuations = 64;

// Lifetime: gRPC and the engine each hold one reference; gRPC's ends in OnDone.
class ScoreCall final : public grpc::ServerUnaryReactor,
                        public worker::TokenSink,
                        public std::enable_shared_from_this<ScoreCall> {
 public:
  // Starts the call; what is returned lives until OnDone.
  static ScoreCall* Start(grpc::CallbackServerContext& context,
                          ModelRegistry& registry, const CallLimits& limits,
                          WorkPool& pool, const v1::ScoreRequest& request,
                          v1::ScoreResponse& response);

  // From the step thread.
  bool OnOutput(worker::StepOutput& output) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnEnd(const absl::Status& status,
             const worker::FinishInfo& info) override ABSL_LOCKS_EXCLUDED(mu_);
  bool Abandoned() const override ABSL_LOCKS_EXCLUDED(mu_);

  // From gRPC.
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mu_);
  void OnDone() override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  ScoreCall(grpc::CallbackServerContext& context, const CallLimits& limits,
            WorkPool& pool, v1::ScoreResponse& response);

  absl::Status Begin(grpc::CallbackServerContext& context,
                     ModelRegistry& registry, const v1::ScoreRequest& request)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Submits the next continuation.
  absl::Status SubmitNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  const std::string request_id_;
  const absl::Time deadline_;
  Preparation preparation_;
  CallGate::Pass pass_;
  ByteBudget::Share held_;
  mutable absl::Mutex mu_;
  Generation generation_ ABSL_GUARDED_BY(mu_);  // its model until End
  std::vector<std::vector<int32_t>> continuations_ ABSL_GUARDED_BY(mu_);
  v1::ScoreResponse& response_ ABSL_GUARDED_BY(mu_);  // until Finish
  bool is_cancelled_ ABSL_GUARDED_BY(mu_) = false;
  ReaderAlarm slow_reader_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<ScoreCall> grpc_reference_;  // released in OnDone
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_SCORE_CALL_H_
