#include "services/worker/calls/model_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "plimsoll/v1/model.grpc.pb.h"
#include "services/host/memory_guard.h"
#include "services/host/request_scope.h"
#include "services/server/call.h"
#include "services/server/reader_alarm.h"
#include "services/tracing/call_trace.h"
#include "services/tracing/tracer.h"
#include "services/wire/from_proto.h"
#include "services/wire/model_parts.h"
#include "services/worker/calls/load_messages.h"
#include "services/worker/calls/model_messages.h"

namespace plimsoll::services {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// One LoadModel call. One message at a time is in flight.
//
// Lifetime: gRPC and the registry each hold one reference; gRPC's ends in
// OnDone.
class LoadCall final : public grpc::ServerWriteReactor<v1::LoadModelResponse>,
                       public LoadWatcher,
                       public std::enable_shared_from_this<LoadCall> {
 public:
  static LoadCall* Start(CallbackServerContext& context,
                         ModelRegistry& registry, const CallLimits& limits,
                         const v1::LoadModelRequest& request) {
    auto call =
        std::shared_ptr<LoadCall>(new LoadCall(context, limits.reader_timeout));
    call->grpc_reference_ = call;
    const absl::Status status = WithinMemory(
        [&] { return call->Begin(context, registry, limits.gate, request); });
    if (!status.ok()) call->OnLoadEnd(status);
    return call.get();
  }

  void OnProgress(const LoadReport& report) override {
    absl::MutexLock lock(&mu_);
    if (is_gone_ || is_finished_) return;
    pending_.Add(report);
    WriteNext();
  }

  void OnLoadEnd(const absl::Status& status) override {
    absl::MutexLock lock(&mu_);
    end_ = status;
    FinishIfSent();
  }

  void OnWriteDone(bool ok) noexcept override {
    absl::MutexLock lock(&mu_);
    slow_reader_.Stop();
    is_writing_ = false;
    pending_.PopFront();
    if (!ok) DropClient();
    WriteNext();
    FinishIfSent();
  }

  // The load goes on; only this call ends.
  void OnCancel() noexcept override {
    absl::MutexLock lock(&mu_);
    is_gone_ = true;
    if (!is_writing_) DropClient();
    FinishIfSent();
  }

  void OnDone() noexcept override {
    {
      absl::MutexLock lock(&mu_);
      slow_reader_.Stop();
    }
    grpc_reference_.reset();
  }

 private:
  LoadCall(CallbackServerContext& context, absl::Duration reader_timeout)
      : context_(context),
        request_id_(TakeRequestId(context)),
        slow_reader_(context, reader_timeout) {}

  absl::Status Begin(CallbackServerContext& context, ModelRegistry& registry,
                     CallGate& gate, const v1::LoadModelRequest& request) {
    ASSIGN_OR_RETURN(pass_, BeginCall(context, gate));
    ASSIGN_OR_RETURN(const planner::LoadOptions options,
                     FromProto(request.options(), registry.load_defaults()));
    const CurrentTrace current(TraceOf(context));
    const RequestScope scope(request_id_);
    return registry.Load(request.model(), options, shared_from_this());
  }

  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (is_writing_ || pending_.empty()) return;
    if (!has_begun_) SendRequestId(context_, request_id_);
    has_begun_ = true;
    slow_reader_.Start();
    is_writing_ = true;
    StartWrite(&pending_.front());
  }

  void DropClient() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    is_gone_ = true;
    pending_.Clear();
    if (!end_.has_value()) end_ = absl::CancelledError("the client is gone");
  }

  void FinishIfSent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (is_finished_ || !end_.has_value() || is_writing_) return;
    slow_reader_.Start();
    const grpc::Status end = EndOfCall(*end_, request_id_);
    is_finished_ = true;
    Finish(end);
  }

  CallbackServerContext& context_;  // until Finish
  const std::string request_id_;
  CallGate::Pass pass_;
  absl::Mutex mu_;
  bool has_begun_ ABSL_GUARDED_BY(mu_) = false;
  // The front is in flight if `is_writing_`. Else there is one only where no
  // memory was left to write it.
  LoadMessages pending_ ABSL_GUARDED_BY(mu_);
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;
  bool is_gone_ ABSL_GUARDED_BY(mu_) = false;
  bool is_finished_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  ReaderAlarm slow_reader_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<LoadCall> grpc_reference_;  // released in OnDone
};

absl::Status GetMemory(ModelRegistry& registry,
                       const v1::GetMemoryRequest& request,
                       v1::GetMemoryResponse& response) {
  ASSIGN_OR_RETURN(const LoadedModel::Use model, registry.Use(request.model()));
  response = MemoryToProto(*model->engine, model->device_ids());
  response.set_model(model->name);
  return absl::OkStatus();
}

class ModelServiceImpl final : public v1::ModelService::CallbackService {
 public:
  ModelServiceImpl(ModelRegistry& registry, CallGate& gate,
                   absl::Duration reader_timeout)
      : registry_(registry),
        limits_{gate, registry.messages(), reader_timeout} {}

  grpc::ServerWriteReactor<v1::LoadModelResponse>* LoadModel(
      CallbackServerContext* context,
      const v1::LoadModelRequest* request) noexcept override {
    return LoadCall::Start(*context, registry_, limits_, *request);
  }

  ServerUnaryReactor* UnloadModel(
      CallbackServerContext* context, const v1::UnloadModelRequest* request,
      v1::UnloadModelResponse* response) noexcept override {
    // Without a share: memory is measured before a model goes, and after.
    auto* reply = new UnaryReply(*context, limits_.reader_timeout,
                                 {*request, *response}, ByteBudget::Share());
    absl::StatusOr<CallGate::Pass> pass = BeginCall(*context, limits_.gate);
    absl::Status status = pass.status();
    if (status.ok()) {
      const RequestScope scope(reply->request_id());
      status = WithinMemory([&] {
        // Shared because a std::function must be copyable.
        auto held = std::make_shared<CallGate::Pass>(*std::move(pass));
        return registry_.Unload(
            request->model(), [reply, held] { reply->End(absl::OkStatus()); });
      });
    }
    if (!status.ok()) reply->End(status);
    return reply;
  }

  ServerUnaryReactor* ListModels(
      CallbackServerContext* context, const v1::ListModelsRequest* request,
      v1::ListModelsResponse* response) noexcept override {
    return AnswerUnary(context, limits_, {*request, *response}, [&] {
      for (const ModelInfo& info : registry_.List()) {
        *response->add_models() = ToProto(info);
      }
      return absl::OkStatus();
    });
  }

  ServerUnaryReactor* GetMemory(
      CallbackServerContext* context, const v1::GetMemoryRequest* request,
      v1::GetMemoryResponse* response) noexcept override {
    return AnswerUnary(context, limits_, {*request, *response}, [&] {
      return services::GetMemory(registry_, *request, *response);
    });
  }

 private:
  ModelRegistry& registry_;
  const CallLimits limits_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewModelService(ModelRegistry& registry,
                                               CallGate& gate,
                                               absl::Duration reader_timeout) {
  return std::make_unique<ModelServiceImpl>(registry, gate, reader_timeout);
}

}  // namespace plimsoll::services
