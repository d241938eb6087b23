#include "services/worker/calls/unary_call.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "services/host/clock.h"
#include "services/wire/errors.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {

UnaryCall::UnaryCall(grpc::CallbackServerContext& context,
                     const CallLimits& limits, WorkPool& pool,
                     v1::GenerateResponse& response)
    : start_(BootTime()),
      request_id_(TakeRequestId(context)),
      preparation_(context, pool),
      held_(EnterCall(context, limits)),
      response_(response),
      slow_reader_(context, limits.reader_timeout) {}

UnaryCall* UnaryCall::Start(grpc::CallbackServerContext& context,
                            ModelRegistry& registry, const CallLimits& limits,
                            WorkPool& pool, const v1::GenerateRequest& request,
                            v1::GenerateResponse& response) {
  auto call = std::shared_ptr<UnaryCall>(
      new UnaryCall(context, limits, pool, response));
  call->grpc_reference_ = call;
  UnaryCall* const started = call.get();
  // `context` and `request` live until OnDone, which comes after the end.
  call->preparation_.Start(
      context, limits.gate, request, call->pass_, call->held_,
      [call, &context, &registry, &request] {
        return call->Begin(context, registry, request);
      },
      [call](const absl::Status& status) { call->OnEnd(status, {}); });
  return started;
}

absl::Status UnaryCall::Begin(grpc::CallbackServerContext& context,
                              ModelRegistry& registry,
                              const v1::GenerateRequest& request) {
  const auto stop = [this] { return preparation_.Check(); };
  ASSIGN_OR_RETURN(
      Generation generation,
      Prepare(registry, {context, request_id_, held_, stop}, request));
  ASSIGN_OR_RETURN(LoadedModel::Use use, registry.Use(request.model()));
  const std::vector<int32_t>& ids = generation.options.prompt_ids;
  const int64_t echo_bytes = WireBytes(ids);
  RETURN_IF_ERROR(
      CheckReplyBytes(echo_bytes + kReplyFrameBytes, "shorten the prompt"));
  {
    absl::MutexLock lock(&mu_);
    meter_ = ReplyMeter(std::move(held_), echo_bytes);
    SetPrompt(generation, ids, request_id_, response_);
    response_.set_text("");
    model_ = std::move(use);
    tools_ = {model_->engine->tokenizer(), generation.prompt.tool_markers};
  }
  return Submit(*generation.model, std::move(generation.options),
                std::min(TimeLeft(context), kUnaryDeadline), start_,
                shared_from_this());
}

bool UnaryCall::OnOutput(worker::StepOutput& output) {
  absl::MutexLock lock(&mu_);
  // Dropped; Abandoned() tells the engine.
  if (is_cancelled_ || !refusal_.ok()) return true;
  refusal_ = meter_.Add(WireBytes(output));
  if (!refusal_.ok()) return true;
  AppendOutput(output, response_);
  tools_.Append(output, response_);
  return true;
}

void UnaryCall::OnEnd(const absl::Status& status,
                      const worker::FinishInfo& info) {
  LoadedModel::Use model;  // let go without our lock
  absl::MutexLock lock(&mu_);
  std::swap(model, model_);
  if (!refusal_.ok()) {
    return End(EndStatus(refusal_));
  }
  if (status.ok()) {
    response_.set_finish_reason(tools_.End(info, response_));
    if (info.reason == worker::FinishReason::kStopString) {
      response_.set_stop_string(info.stop_string);
    }
    *response_.mutable_timing() = TimingToProto(info, BootTime() - start_);
    *response_.mutable_usage() = UsageToProto(info);
    *response_.mutable_memory() = MemoryOf(*model);
  }
  End(EndStatus(status));
}

void UnaryCall::End(const absl::Status& status) {
  if (!status.ok()) Free(response_);
  meter_.Settle(MemoryOfReply(response_));
  slow_reader_.Start();
  Finish(ToGrpc(status, request_id_));
}

bool UnaryCall::Abandoned() const {
  absl::MutexLock lock(&mu_);
  return is_cancelled_ || !refusal_.ok();
}

void UnaryCall::OnCancel() {
  preparation_.Cancel();
  absl::MutexLock lock(&mu_);
  is_cancelled_ = true;
  if (model_) model_->engine->Wake();
}

void UnaryCall::OnDone() {
  {
    absl::MutexLock lock(&mu_);
    slow_reader_.Stop();
  }
  grpc_reference_.reset();
}

}  // namespace plimsoll::services
