#include "services/worker/calls/admin_service.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "plimsoll/v1/admin.grpc.pb.h"
#include "services/host/log.h"
#include "services/server/call.h"
#include "services/server/reader_alarm.h"
#include "services/wire/to_proto.h"
#include "services/worker/calls/admin.h"

namespace plimsoll::services {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// Begins to drain for the request of an id.
void CloseGate(CallGate& gate, const std::string& request_id) {
  if (!gate.is_closed()) {
    Log(LogLevel::kInfo, "draining: a call asked for it",
        {{"request_id", request_id}});
  }
  gate.Close();
}

// A Drain call that waits: ends when no other call runs, or with its client.
//
// Lifetime: gRPC and the gate each hold one reference; gRPC's ends in OnDone.
class DrainCall final : public ServerUnaryReactor,
                        public std::enable_shared_from_this<DrainCall> {
 public:
  static DrainCall* Start(CallbackServerContext& context,
                          const CallLimits& limits,
                          v1::DrainResponse& response) {
    CallGate& gate = limits.gate;
    auto call =
        std::shared_ptr<DrainCall>(new DrainCall(context, limits, response));
    call->grpc_reference_ = call;
    CloseGate(gate, call->request_id_);
    call->waiter_ =
        gate.NotifyWhenIdle([call] { call->End(absl::OkStatus()); });
    return call.get();
  }

  void OnCancel() noexcept override {
    gate_.Forget(waiter_);
    End(absl::CancelledError("the client is gone; the drain goes on"));
  }

  void OnDone() noexcept override {
    {
      absl::MutexLock lock(&mu_);
      slow_reader_.Stop();
    }
    grpc_reference_.reset();
  }

 private:
  DrainCall(CallbackServerContext& context, const CallLimits& limits,
            v1::DrainResponse& response)
      : context_(context),
        gate_(limits.gate),
        request_id_(TakeRequestId(context)),
        response_(response),
        slow_reader_(context, limits.reader_timeout) {}

  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (is_finished_) return;
    is_finished_ = true;
    response_.set_running_calls(0);
    if (status.ok()) SendRequestId(context_, request_id_);
    slow_reader_.Start();
    Finish(EndOfCall(status, request_id_));
  }

  CallbackServerContext& context_;  // until Finish
  CallGate& gate_;
  const std::string request_id_;
  int64_t waiter_ = 0;  // set before gRPC can cancel
  absl::Mutex mu_;
  v1::DrainResponse& response_ ABSL_GUARDED_BY(mu_);  // until Finish
  bool is_finished_ ABSL_GUARDED_BY(mu_) = false;
  ReaderAlarm slow_reader_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<DrainCall> grpc_reference_;  // released in OnDone
};

class AdminServiceImpl final : public v1::AdminService::CallbackService {
 public:
  AdminServiceImpl(ModelRegistry& registry, CallGate& gate,
                   absl::Duration reader_timeout)
      : registry_(registry),
        limits_{gate, registry.messages(), reader_timeout} {}

  ServerUnaryReactor* GetLoad(CallbackServerContext* context,
                              const v1::GetLoadRequest* request,
                              v1::GetLoadResponse* response) noexcept override {
    const CallGate& gate = limits_.gate;
    response->set_draining(gate.is_closed());
    response->set_running_calls(ToUint32(gate.running()));
    for (v1::ModelActivity& model : Activity(registry_)) {
      *response->add_models() = std::move(model);
    }
    return Reply(*context, {*request, *response}, absl::OkStatus());
  }

  ServerUnaryReactor* Drain(CallbackServerContext* context,
                            const v1::DrainRequest* request,
                            v1::DrainResponse* response) noexcept override {
    if (request->wait()) return DrainCall::Start(*context, limits_, *response);
    UnaryReply* reply = NewReply(*context, {*request, *response});
    CloseGate(limits_.gate, reply->request_id());
    response->set_running_calls(ToUint32(limits_.gate.running()));
    for (v1::ModelActivity& model : Activity(registry_)) {
      const bool is_idle = model.running() == 0 && model.waiting() == 0;
      if (!is_idle) *response->add_models() = std::move(model);
    }
    reply->End(absl::OkStatus());
    return reply;
  }

  ServerUnaryReactor* Abort(CallbackServerContext* context,
                            const v1::AbortRequest* request,
                            v1::AbortResponse* response) noexcept override {
    const auto ended = services::Abort(registry_, *request);
    if (ended.ok()) *response = *ended;
    return Reply(*context, {*request, *response}, ended.status());
  }

 private:
  UnaryReply* NewReply(CallbackServerContext& context,
                       const UnaryMessages& messages) {
    return new UnaryReply(context, limits_.reader_timeout, messages,
                          EnterCall(context, limits_));
  }
  ServerUnaryReactor* Reply(CallbackServerContext& context,
                            const UnaryMessages& messages,
                            const absl::Status& status) {
    UnaryReply* reply = NewReply(context, messages);
    reply->End(status);
    return reply;
  }

  ModelRegistry& registry_;
  const CallLimits limits_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewAdminService(ModelRegistry& registry,
                                               CallGate& gate,
                                               absl::Duration reader_timeout) {
  return std::make_unique<AdminServiceImpl>(registry, gate, reader_timeout);
}

}  // namespace plimsoll::services
