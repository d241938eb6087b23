// One Score call: its continuations one after the other, each as a prompt that
// nothing is generated after.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_SCORE_CALL_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_SCORE_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "plimsoll/v1/generation.pb.h"
#include "services/generation/generation.h"
#include "services/worker/calls/call_reactor.h"
#include "worker/engine/engine.h"

namespace plimsoll::services {

// The most continuations that one call may score. Each is at most as long as a
// slot's context.
inline constexpr int kMaxContinuations = 64;

class ScoreCall final : public CallReactor<grpc::ServerUnaryReactor> {
 public:
  // Starts the call; what is returned lives until OnDone.
  static ScoreCall* Start(grpc::CallbackServerContext& context,
                          const CallRoom& room, const v1::ScoreRequest& request,
                          v1::ScoreResponse& response);

 private:
  ScoreCall(grpc::CallbackServerContext& context, const CallRoom& room,
            v1::ScoreResponse& response);

  absl::Status Begin(const v1::ScoreRequest& request, ServedModel model)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Submits the next continuation.
  absl::Status SubmitNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Deliver(worker::StepOutput& output) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Submits the next continuation, if there is one.
  bool Complete(const absl::Status& status,
                const worker::FinishInfo& info) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const absl::Time deadline_;
  Prompt prompt_ ABSL_GUARDED_BY(mu_);
  // Options of each submission.
  worker::GenerateOptions options_ ABSL_GUARDED_BY(mu_);
  std::vector<std::vector<int32_t>> continuations_ ABSL_GUARDED_BY(mu_);
  v1::ScoreResponse& response_ ABSL_GUARDED_BY(mu_);  // until Finish
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_SCORE_CALL_H_
