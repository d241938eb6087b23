// Turns a call's request into work for an engine, away from gRPC's threads.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_PREPARATION_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_PREPARATION_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop_check.h"
#include "plimsoll/v1/session.pb.h"
#include "services/generation/served_model.h"
#include "services/server/byte_budget.h"
#include "services/server/call.h"
#include "services/server/call_stop.h"
#include "services/server/peer.h"
#include "services/server/work_pool.h"
#include "services/worker/models/model_registry.h"

namespace plimsoll::services {

// Where a worker's calls run.
struct CallRoom {
  ModelRegistry& registry;
  CallLimits limits;
  WorkPool& pool;
};

template <typename Request>
bool HasConstraint(const Request& request) {
  if constexpr (requires { request.has_constraint(); }) {
    return request.has_constraint();
  }
  return false;
}

// True if a whole chat is rendered for the request, however short it is.
template <typename Request>
bool RendersSession(const ServedModel& model, const Request& request) {
  if constexpr (std::is_same_v<Request, v1::ChatRequest>) {
    return model.engine->KeepsTexts(request.session_id());
  }
  return false;
}

// Estimates what it costs to prepare `request`, unless it renders a session.
template <typename Request>
WorkCost CostOf(const Request& request) {
  return request.ByteSizeLong() <= kMaxQuickBytes && !HasConstraint(request)
             ? WorkCost::kQuick
             : WorkCost::kLong;
}

// Fills the response of a call for a model. It may check whether the client
// still waits, and may grow the call's share.
using ModelAnswer = std::function<absl::Status(
    const ServedModel& model, StopCheck stop, ByteBudget::Share& held)>;

// The work of a unary call for a model.
struct ModelWork {
  const std::string& model;  // the name, which the call's request holds
  WorkCost cost;
  ModelAnswer answer;
};
template <typename Request>
ModelWork WorkFor(const Request& request, ModelAnswer answer) {
  return {request.model(), CostOf(request), std::move(answer)};
}

// Answers a unary call with `work`: at once if the request is small and its
// model is ready, else on the pool, once the model is loaded.
inline grpc::ServerUnaryReactor* AnswerPrepared(
    grpc::CallbackServerContext* context, const CallRoom& room,
    const UnaryMessages& messages, const ModelWork& work) {
  ModelRegistry& registry = room.registry;
  const absl::StatusOr<ServedModel> ready = registry.Serve(work.model);
  if (messages.request.ByteSizeLong() <= kMaxInlineBytes &&
      (ready.ok() || !registry.loads_on_demand())) {
    return AnswerUnary(context, room.limits, messages,
                       [&](ByteBudget::Share& held) -> absl::Status {
                         return ready.ok()
                                    ? work.answer(*ready, NeverStop, held)
                                    : ready.status();
                       });
  }
  const auto model = std::make_shared<ServedModel>();
  return AnswerOnPool(
      context, {room.limits, room.pool}, messages,
      {.cost = work.cost,
       .answer =
           [model, answer = work.answer](StopCheck stop,
                                         ByteBudget::Share& held) {
             return answer(std::exchange(*model, {}), stop, held);
           },
       .before =
           [&registry, model, &name = work.model](
               const std::function<void(const absl::Status&)>& go_on) {
             const auto set = [model,
                               go_on](absl::StatusOr<ServedModel> served) {
               const absl::Status status = served.status();
               if (status.ok()) *model = *std::move(served);
               go_on(status);
             };
             auto served = registry.ServeOrLoad(name, set);
             if (!served.ok()) return set(served.status());
             if (served->has_value()) set(**std::move(served));
           }});
}

// The preparation of one call, which must outlive the work. Thread-safe.
class Preparation {
 public:
  // Gets the model, or why the call ends.
  using Work = std::function<void(absl::StatusOr<ServedModel> model)>;

  Preparation(const grpc::CallbackServerContext& context, WorkPool& pool)
      : pool_(pool), stop_(NewCallStop(context)) {}

  // Calls `work` once with the request's model: at once or on a thread of the
  // pool. It gets an error if there is no such model, the pool has no room, or
  // the call ends before its turn.
  template <typename Request>
  void Run(const grpc::CallbackServerContext& context, ModelRegistry& registry,
           const Request& request, const Work& work) {
    auto served = registry.ServeOrLoad(
        request.model(),
        [this, &context, &request, work](absl::StatusOr<ServedModel> loaded) {
          // The thread that loads has other things to do.
          if (!loaded.ok()) return work(loaded.status());
          Queue(context, request, *std::move(loaded), work);
        });
    if (!served.ok()) return work(served.status());
    if (!served->has_value()) return;
    if (request.ByteSizeLong() <= kMaxInlineBytes && !HasConstraint(request) &&
        !RendersSession(**served, request)) {
      return work(**std::move(served));
    }
    Queue(context, request, **std::move(served), work);
  }

  // Returns OK while the work should go on.
  absl::Status Check() const { return stop_->Check(); }
  // Drops work that waits, and ends work that runs. The caller must hold no
  // lock that the work takes.
  void Cancel() { pool_.Cancel(*stop_); }

 private:
  template <typename Request>
  void Queue(const grpc::CallbackServerContext& context, const Request& request,
             ServedModel model, const Work& work) {
    // Shared because a std::function must be copyable, and a copy that is left
    // somewhere must not keep the model.
    const WorkCost cost =
        RendersSession(model, request) ? WorkCost::kLong : CostOf(request);
    const auto taken = std::make_shared<ServedModel>(std::move(model));
    const auto run = [taken, work](const absl::Status& queued) {
      if (!queued.ok()) return work(queued);
      work(std::exchange(*taken, {}));
    };
    const absl::Status queued =
        pool_.Submit({.peer = PeerOf(context.peer()),
                      .cost = cost,
                      .stop = stop_,
                      .work = run,
                      .request_bytes = request.ByteSizeLong()});
    if (!queued.ok()) run(queued);
  }

  WorkPool& pool_;
  const std::shared_ptr<CallStop> stop_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_PREPARATION_H_
