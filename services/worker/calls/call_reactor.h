// What the gRPC calls that generate have in common: how they begin, how they
// are cancelled, and how long they live.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_CALL_REACTOR_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_CALL_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "base/sync/steady_mutex.h"
#include "services/generation/generation.h"
#include "services/generation/generation_call.h"
#include "services/host/clock.h"
#include "services/host/memory_guard.h"
#include "services/host/request_scope.h"
#include "services/server/byte_budget.h"
#include "services/server/call.h"
#include "services/server/call_gate.h"
#include "services/server/reader_alarm.h"
#include "services/tracing/call_trace.h"
#include "services/tracing/request_trace.h"
#include "services/tracing/tracer.h"
#include "services/wire/errors.h"
#include "services/worker/calls/claim.h"
#include "services/worker/calls/preparation.h"

namespace plimsoll::services {

static_assert(kMaxRequestIdBytes ==
              worker::GenerateOptions::kMaxRequestIdBytes);

// The operation of a request, as spans name it.
template <typename Request>
absl::string_view OperationOf(const Request& request) {
  if constexpr (std::is_same_v<Request, v1::ScoreRequest>) {
    return "score";
  } else if constexpr (std::is_same_v<Request, v1::ChatRequest>) {
    return "chat";
  } else {
    return request.has_chat() ? "chat" : "text_completion";
  }
}

// Null, and no work, if the process has no tracer.
inline std::shared_ptr<RequestTrace> TraceOfRequest(
    const grpc::CallbackServerContext& context, const std::string& request_id) {
  if (Tracer::Active() == nullptr) return nullptr;
  return RequestTrace::Begin(TraceOf(context), request_id);
}

// `Reactor` is one of gRPC's server reactors. gRPC and the engine each hold one
// reference to the call; gRPC's ends in OnDone.
template <typename Reactor>
class CallReactor : public Reactor, public GenerationCall {
 public:
  void OnCancel() noexcept final {
    preparation_.Cancel();
    Abandon();
  }

  void OnDone() noexcept final {
    {
      SteadyMutexLock lock(&mu_);
      slow_reader_.Stop();
    }
    if (trace_ != nullptr) trace_->End();
    grpc_reference_.reset();
  }

 protected:
  CallReactor(grpc::CallbackServerContext& context, const CallRoom& room)
      : CallReactor(context, room, TakeRequestId(context)) {}

  // Makes a call and starts it: `begin(call, model)` turns its request into
  // work, at once or on the pool. The returned reactor lives until OnDone.
  template <typename Call, typename Request, typename Begin>
  static Call* Start(std::shared_ptr<Call> call, const CallRoom& room,
                     const Request& request, Begin begin) {
    CallReactor& started = *call;
    started.grpc_reference_ = call;
    if (started.trace_ != nullptr) {
      started.trace_->SetOperation(OperationOf(request));
    }
    // A load that the call has to wait for belongs to it.
    const CurrentTrace current(ContextOf(started.trace_));
    const RequestScope scope(started.request_id_);
    // gRPC keeps the context and the request until OnDone, which comes after
    // the end.
    const absl::Status entered = started.Enter(room.limits.gate, request);
    if (!entered.ok()) {
      call->OnEnd(entered, {});
      return call.get();
    }
    const auto begin_with = [call, begin](absl::StatusOr<ServedModel> model) {
      absl::Status status = model.status();
      if (status.ok()) {
        status = WithinMemory([&] { return begin(*call, *std::move(model)); });
      }
      if (!status.ok()) call->OnEnd(status, {});
    };
    started.preparation_.Run(started.context_, room.registry, request,
                             begin_with);
    return call.get();
  }

  // Prepares the call's request.
  // Errors: what the caller's metadata and Prepare report.
  template <typename Request>
  absl::StatusOr<Generation> PrepareRequest(const Request& request,
                                            ServedModel model, StopCheck stop) {
    ASSIGN_OR_RETURN(worker::Claim claim, ClaimOf(context_, gate_));
    // gRPC keeps a request until its call is done, and hands it out as const.
    return Prepare(std::move(model),
                   {std::move(claim), request_id_, held_, stop},
                   const_cast<Request&>(request));
  }

  // What is left of a unary call's time.
  absl::Duration UnaryTimeLeft() const {
    return std::min(TimeLeft(context_), kUnaryDeadline);
  }

  // The call itself, which the engine is to hold.
  std::shared_ptr<GenerationCall> Self() { return grpc_reference_; }

  grpc::CallbackServerContext& context_;  // until Finish
  const std::string request_id_;
  const CallGate& gate_;
  Preparation preparation_;
  CallGate::Pass pass_;
  // Used by one thread at a time: first by the one that begins, later by those
  // that have the lock.
  ByteBudget::Share held_;
  ReaderAlarm slow_reader_ ABSL_GUARDED_BY(mu_);

 private:
  // Takes the call's pass of the gate, and the memory of its request.
  template <typename Request>
  absl::Status Enter(CallGate& gate, const Request& request) {
    ASSIGN_OR_RETURN(pass_, BeginCall(context_, gate));
    return held_.Grow(MemoryOf(request));
  }

  CallReactor(grpc::CallbackServerContext& context, const CallRoom& room,
              std::string request_id)
      : GenerationCall(BootTime(), TraceOfRequest(context, request_id)),
        context_(context),
        request_id_(std::move(request_id)),
        gate_(room.limits.gate),
        preparation_(context, room.pool),
        held_(EnterCall(context, room.limits)),
        slow_reader_(context, room.limits.reader_timeout) {}

  std::shared_ptr<CallReactor> grpc_reference_;  // released in OnDone
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_CALL_REACTOR_H_
