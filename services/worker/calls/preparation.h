// Turns a call's request into work for an engine, away from gRPC's threads.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_PREPARATION_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_PREPARATION_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/stop_check.h"
#include "services/server/byte_budget.h"
#include "services/server/call.h"
#include "services/server/call_gate.h"
#include "services/server/call_stop.h"
#include "services/server/peer.h"
#include "services/server/work_pool.h"

namespace plimsoll::services {

template <typename Request>
bool HasConstraint(const Request& request) {
  if constexpr (requires { request.has_constraint(); }) {
    return request.has_constraint();
  }
  return false;
}

// Estimates what it costs to prepare `request`.
template <typename Request>
WorkCost CostOf(const Request& request) {
  return request.ByteSizeLong() <= kMaxQuickBytes && !HasConstraint(request)
             ? WorkCost::kQuick
             : WorkCost::kLong;
}

// Answers a unary call with `answer`, at once if the request is small, else on
// the pool.
template <typename Request, typename Response>
grpc::ServerUnaryReactor* AnswerPrepared(grpc::CallbackServerContext* context,
                                         const CallLimits& limits,
                                         WorkPool& pool, const Request& request,
                                         Response& response,
                                         PooledAnswer answer) {
  if (request.ByteSizeLong() <= kMaxInlineBytes) {
    return AnswerUnary(
        context, limits, request, response,
        [&](ByteBudget::Share& held) { return answer(NeverStop, held); });
  }
  return AnswerOnPool(context, limits, pool, CostOf(request), request, response,
                      std::move(answer));
}

// The preparation of one call, which must outlive the work. Thread-safe.
class Preparation {
 public:
  Preparation(const grpc::CallbackServerContext& context, WorkPool& pool)
      : pool_(pool), stop_(NewCallStop(context)) {}

  // Calls `work` once. It gets OK, at once or on a thread of the pool, or an
  // error if the pool has no room or the call ends before its turn.
  template <typename Request>
  void Run(const grpc::CallbackServerContext& context, const Request& request,
           const std::function<void(const absl::Status&)>& work) {
    if (request.ByteSizeLong() <= kMaxInlineBytes && !HasConstraint(request)) {
      return work(absl::OkStatus());
    }
    const absl::Status queued =
        pool_.Submit({.peer = PeerOf(context.peer()),
                      .cost = CostOf(request),
                      .stop = stop_,
                      .work = work,
                      .request_bytes = request.ByteSizeLong()});
    if (!queued.ok()) work(queued);
  }

  // Begins a call: takes its `pass` of the gate and the memory of its request,
  // which `held` counts, and calls `begin` as Run does. `fail` gets the error
  // if any of this fails.
  template <typename Request, typename Begin, typename Fail>
  void Start(grpc::CallbackServerContext& context, CallGate& gate,
             const Request& request, CallGate::Pass& pass,
             ByteBudget::Share& held, Begin begin, Fail fail) {
    auto admitted = BeginCall(context, gate);
    if (!admitted.ok()) return fail(admitted.status());
    pass = *std::move(admitted);
    const absl::Status has_room = held.Grow(MemoryOf(request));
    if (!has_room.ok()) return fail(has_room);
    Run(context, request, [begin, fail](const absl::Status& queued) {
      const absl::Status status = queued.ok() ? begin() : queued;
      if (!status.ok()) fail(status);
    });
  }

  // Returns OK while the work should go on.
  absl::Status Check() const { return stop_->Check(); }
  // Drops work that waits, and ends work that runs. The caller must hold no
  // lock that the work takes.
  void Cancel() { pool_.Cancel(*stop_); }

 private:
  WorkPool& pool_;
  const std::shared_ptr<CallStop> stop_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_PREPARATION_H_
