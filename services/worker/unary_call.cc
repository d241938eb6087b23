#include "services/worker/unary_call.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "services/common/call.h"
#include "services/common/clock.h"
#include "services/common/errors.h"
#include "services/common/to_proto.h"

namespace plimsoll::services {

UnaryCall::UnaryCall(grpc::CallbackServerContext& context,
                     v1::GenerateResponse& response)
    : start_(BootTime()),
      request_id_(TakeRequestId(context)),
      response_(response) {}

UnaryCall* UnaryCall::Start(grpc::CallbackServerContext& context,
                            ModelRegistry& registry, CallGate& gate,
                            const v1::GenerateRequest& request,
                            v1::GenerateResponse& response) {
  auto call = std::shared_ptr<UnaryCall>(new UnaryCall(context, response));
  call->grpc_reference_ = call;
  if (const absl::Status status = call->Begin(context, registry, gate, request);
      !status.ok()) {
    call->OnEnd(status, {});
  }
  return call.get();
}

absl::Status UnaryCall::Begin(grpc::CallbackServerContext& context,
                              ModelRegistry& registry, CallGate& gate,
                              const v1::GenerateRequest& request) {
  ASSIGN_OR_RETURN(pass_, BeginCall(context, gate));
  ASSIGN_OR_RETURN(Generation generation,
                   Prepare(registry, {context, request_id_}, request));
  ASSIGN_OR_RETURN(LoadedModel::Use use, registry.Use(request.model()));
  {
    absl::MutexLock lock(&mu_);
    for (const int32_t id : generation.prompt.ids) {
      response_.add_prompt_ids(ToUint32(id));
    }
    response_.set_text("");
    response_.set_model(generation.model->name);
    response_.set_request_id(request_id_);
    response_.set_chat_format(generation.prompt.chat_format);
    model_ = std::move(use);
    tools_ = {model_->engine->tokenizer(), generation.prompt.tool_markers};
  }
  return Submit(generation, std::min(TimeLeft(context), kUnaryDeadline), start_,
                shared_from_this());
}

bool UnaryCall::OnOutput(worker::StepOutput& output) {
  absl::MutexLock lock(&mu_);
  if (is_cancelled_) return true;  // dropped; Abandoned() tells the engine
  AppendOutput(output, response_);
  tools_.Append(output, response_);
  return true;
}

void UnaryCall::OnEnd(const absl::Status& status,
                      const worker::FinishInfo& info) {
  LoadedModel::Use model;  // let go without our lock
  absl::MutexLock lock(&mu_);
  std::swap(model, model_);
  if (status.ok()) {
    response_.set_finish_reason(tools_.End(info, response_));
    if (info.reason == worker::FinishReason::kStopString) {
      response_.set_stop_string(info.stop_string);
    }
    *response_.mutable_timing() = TimingToProto(info, BootTime() - start_);
    *response_.mutable_usage() = UsageToProto(info);
    *response_.mutable_memory() = MemoryOf(*model);
  }
  Finish(ToGrpc(EndStatus(status), request_id_));
}

bool UnaryCall::Abandoned() const {
  absl::MutexLock lock(&mu_);
  return is_cancelled_;
}

void UnaryCall::OnCancel() {
  absl::MutexLock lock(&mu_);
  is_cancelled_ = true;
  if (model_) model_->engine->Wake();
}

void UnaryCall::OnDone() { grpc_reference_.reset(); }

}  // namespace plimsoll::services
