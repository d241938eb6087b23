#include "services/worker/calls/stream_call.h"

#include <utility>

#include "base/status_macros.h"
#include "services/host/clock.h"
#include "services/server/call.h"
#include "services/wire/errors.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {

template <typename Request, typename Response>
StreamCall<Request, Response>::StreamCall(grpc::CallbackServerContext& context,
                                          WorkPool& pool,
                                          absl::Duration reader_timeout)
    : context_(context),
      start_(BootTime()),
      request_id_(TakeRequestId(context)),
      preparation_(context, pool),
      slow_reader_(context, reader_timeout) {}

template <typename Request, typename Response>
StreamCall<Request, Response>* StreamCall<Request, Response>::Start(
    grpc::CallbackServerContext& context, ModelRegistry& registry,
    CallGate& gate, WorkPool& pool, absl::Duration reader_timeout,
    const Request& request) {
  auto call = std::shared_ptr<StreamCall>(
      new StreamCall(context, pool, reader_timeout));
  call->grpc_reference_ = call;
  StreamCall* const started = call.get();
  // `context` and `request` live until OnDone, which comes after the end.
  call->preparation_.Start(
      context, gate, request, call->pass_,
      [call, &registry, &request] { return call->Begin(registry, request); },
      [call](const absl::Status& status) { call->OnEnd(status, {}); });
  return started;
}

template <typename Request, typename Response>
absl::Status StreamCall<Request, Response>::Begin(ModelRegistry& registry,
                                                  const Request& request) {
  const auto stop = [this] { return preparation_.Check(); };
  ASSIGN_OR_RETURN(Generation generation,
                   Prepare(registry, {context_, request_id_, stop}, request));
  share_ = std::move(generation.share);
  v1::PromptInfo info;
  for (const int32_t id : generation.prompt.ids) {
    info.add_prompt_ids(ToUint32(id));
  }
  info.set_model(generation.model->name);
  info.set_request_id(request_id_);
  info.set_n_ctx(ToUint32(generation.model->engine->n_ctx()));
  info.set_chat_format(generation.prompt.chat_format);
  ASSIGN_OR_RETURN(LoadedModel::Use use, registry.Use(request.model()));
  {
    absl::MutexLock lock(&mu_);
    prompt_ = std::move(info);
    model_ = std::move(use);
    tools_ = {model_->engine->tokenizer(), generation.prompt.tool_markers};
  }
  return Submit(generation, TimeLeft(context_), start_,
                this->shared_from_this());
}

template <typename Request, typename Response>
void StreamCall<Request, Response>::Push(Response message) {
  if (prompt_.has_value()) {
    *message.mutable_prompt() = *std::exchange(prompt_, std::nullopt);
  }
  pending_bytes_ += message.ByteSizeLong();
  pending_.push_back(std::move(message));
  if (pending_.size() == 1) this->StartWrite(&pending_.front());
}

template <typename Request, typename Response>
bool StreamCall<Request, Response>::OnOutput(worker::StepOutput& output) {
  absl::MutexLock lock(&mu_);
  if (is_cancelled_) return true;  // dropped; Abandoned() tells the engine
  if (pending_.size() >= kMaxPending || pending_bytes_ >= kMaxPendingBytes) {
    slow_reader_.Start();
    return false;
  }
  Response message;
  AppendOutput(output, message);
  tools_.Append(output, message);
  Push(std::move(message));
  return true;
}

template <typename Request, typename Response>
void StreamCall<Request, Response>::OnEnd(const absl::Status& status,
                                          const worker::FinishInfo& info) {
  LoadedModel::Use model;  // let go without our lock
  absl::MutexLock lock(&mu_);
  std::swap(model, model_);
  end_ = EndStatus(status);
  if (status.ok() && !is_cancelled_) {
    Response last;
    v1::FinishInfo& finish = *last.mutable_finish();
    finish.set_finish_reason(tools_.End(info, last));
    if (info.reason == worker::FinishReason::kStopString) {
      finish.set_stop_string(info.stop_string);
    }
    *finish.mutable_timing() = TimingToProto(info, BootTime() - start_);
    *finish.mutable_usage() = UsageToProto(info);
    *finish.mutable_memory() = MemoryOf(*model);
    Push(std::move(last));
  }
  FinishIfSent();
}

template <typename Request, typename Response>
bool StreamCall<Request, Response>::Abandoned() const {
  absl::MutexLock lock(&mu_);
  return is_cancelled_;
}

template <typename Request, typename Response>
void StreamCall<Request, Response>::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mu_);
  slow_reader_.Stop();
  pending_bytes_ -= pending_.front().ByteSizeLong();
  pending_.pop_front();
  if (!ok) {
    pending_.clear();
    pending_bytes_ = 0;
    is_cancelled_ = true;
  }
  if (!pending_.empty()) this->StartWrite(&pending_.front());
  FinishIfSent();
  if (model_) model_->engine->Wake();
}

template <typename Request, typename Response>
void StreamCall<Request, Response>::OnCancel() {
  preparation_.Cancel();
  absl::MutexLock lock(&mu_);
  is_cancelled_ = true;
  if (model_) model_->engine->Wake();
}

template <typename Request, typename Response>
void StreamCall<Request, Response>::FinishIfSent() {
  if (is_finished_ || !end_.has_value() || !pending_.empty()) return;
  is_finished_ = true;
  slow_reader_.Stop();
  this->Finish(ToGrpc(*end_, request_id_));
}

template <typename Request, typename Response>
void StreamCall<Request, Response>::OnDone() {
  grpc_reference_.reset();
}

template class StreamCall<v1::StreamGenerateRequest,
                          v1::StreamGenerateResponse>;
template class StreamCall<v1::ChatRequest, v1::ChatResponse>;

}  // namespace plimsoll::services
