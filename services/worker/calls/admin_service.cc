// AdminService on the wire. Its calls are not counted by the gate, which it
// closes, and are answered while the worker drains.
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "plimsoll/v1/admin.grpc.pb.h"
#include "services/host/log.h"
#include "services/server/call.h"
#include "services/wire/to_proto.h"
#include "services/worker/calls/admin.h"
#include "services/worker/calls/services.h"

namespace plimsoll::services {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// A Drain call that waits: ends when no other call runs, or with its client.
//
// Lifetime: gRPC and the gate each hold one reference; gRPC's ends in OnDone.
class DrainCall final : public ServerUnaryReactor,
                        public std::enable_shared_from_this<DrainCall> {
 public:
  static DrainCall* Start(CallGate& gate, std::string request_id,
                          v1::DrainResponse& response) {
    auto call = std::shared_ptr<DrainCall>(
        new DrainCall(gate, std::move(request_id), response));
    call->grpc_reference_ = call;
    call->waiter_ =
        gate.NotifyWhenIdle([call] { call->End(absl::OkStatus()); });
    return call.get();
  }

  void OnCancel() override {
    gate_.Forget(waiter_);
    End(absl::CancelledError("the client is gone; the drain goes on"));
  }

  void OnDone() override { grpc_reference_.reset(); }

 private:
  DrainCall(CallGate& gate, std::string request_id, v1::DrainResponse& response)
      : gate_(gate), request_id_(std::move(request_id)), response_(response) {}

  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (is_finished_) return;
    is_finished_ = true;
    response_.set_running_calls(0);
    Finish(ToGrpc(status, request_id_));
  }

  CallGate& gate_;
  const std::string request_id_;
  int64_t waiter_ = 0;  // set before gRPC can cancel
  absl::Mutex mu_;
  v1::DrainResponse& response_ ABSL_GUARDED_BY(mu_);  // until Finish
  bool is_finished_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<DrainCall> grpc_reference_;  // released in OnDone
};

class AdminServiceImpl final : public v1::AdminService::CallbackService {
 public:
  AdminServiceImpl(ModelRegistry& registry, CallGate& gate)
      : registry_(registry), gate_(gate) {}

  ServerUnaryReactor* GetLoad(CallbackServerContext* context,
                              const v1::GetLoadRequest*,
                              v1::GetLoadResponse* response) override {
    TakeRequestId(*context);
    response->set_draining(gate_.is_closed());
    response->set_running_calls(ToUint32(gate_.running()));
    for (v1::ModelActivity& model : Activity(registry_)) {
      *response->add_models() = std::move(model);
    }
    ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  ServerUnaryReactor* Drain(CallbackServerContext* context,
                            const v1::DrainRequest* request,
                            v1::DrainResponse* response) override {
    std::string request_id = TakeRequestId(*context);
    if (!gate_.is_closed()) Log("draining: a call asked for it");
    gate_.Close();
    if (request->wait()) {
      return DrainCall::Start(gate_, std::move(request_id), *response);
    }
    response->set_running_calls(ToUint32(gate_.running()));
    for (v1::ModelActivity& model : Activity(registry_)) {
      const bool is_idle = model.running() == 0 && model.waiting() == 0;
      if (!is_idle) *response->add_models() = std::move(model);
    }
    ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  ServerUnaryReactor* Abort(CallbackServerContext* context,
                            const v1::AbortRequest* request,
                            v1::AbortResponse* response) override {
    const std::string request_id = TakeRequestId(*context);
    auto ended = services::Abort(registry_, *request);
    if (ended.ok()) *response = *std::move(ended);
    ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(ToGrpc(ended.status(), request_id));
    return reactor;
  }

 private:
  ModelRegistry& registry_;
  CallGate& gate_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewAdminService(ModelRegistry& registry,
                                               CallGate& gate) {
  return std::make_unique<AdminServiceImpl>(registry, gate);
}

}  // namespace plimsoll::services
