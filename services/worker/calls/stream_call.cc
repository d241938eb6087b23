#include "services/worker/calls/stream_call.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "services/host/clock.h"
#include "services/wire/errors.h"
#include "services/wire/to_proto.h"
#include "services/worker/models/message_bytes.h"

namespace plimsoll::services {

template <typename Request, typename Response>
StreamCall<Request, Response>::StreamCall(grpc::CallbackServerContext& context,
                                          const CallLimits& limits,
                                          WorkPool& pool)
    : context_(context),
      start_(BootTime()),
      request_id_(TakeRequestId(context)),
      preparation_(context, pool),
      held_(EnterCall(context, limits)),
      slow_reader_(context, limits.reader_timeout) {}

template <typename Request, typename Response>
StreamCall<Request, Response>* StreamCall<Request, Response>::Start(
    grpc::CallbackServerContext& context, ModelRegistry& registry,
    const CallLimits& limits, WorkPool& pool, const Request& request) {
  auto call =
      std::shared_ptr<StreamCall>(new StreamCall(context, limits, pool));
  call->grpc_reference_ = call;
  StreamCall* const started = call.get();
  // `context` and `request` live until OnDone, which comes after the end.
  call->preparation_.Start(
      context, limits.gate, request, call->pass_, call->held_,
      [call, &registry, &request] { return call->Begin(registry, request); },
      [call](const absl::Status& status) { call->OnEnd(status, {}); });
  return started;
}

template <typename Request, typename Response>
absl::Status StreamCall<Request, Response>::Begin(ModelRegistry& registry,
                                                  const Request& request) {
  const auto stop = [this] { return preparation_.Check(); };
  ASSIGN_OR_RETURN(
      Generation generation,
      Prepare(registry, {context_, request_id_, held_, stop}, request));
  const std::vector<int32_t>& ids = generation.options.prompt_ids;
  RETURN_IF_ERROR(
      CheckReplyBytes(WireBytes(ids) + kReplyFrameBytes, "shorten the prompt"));
  v1::PromptInfo info;
  SetPrompt(generation, ids, request_id_, info);
  info.set_n_ctx(ToUint32(generation.model->engine->n_ctx()));
  ASSIGN_OR_RETURN(LoadedModel::Use use, registry.Use(request.model()));
  {
    absl::MutexLock lock(&mu_);
    held_at_first_ = held_.bytes();
    RETURN_IF_ERROR(held_.Grow(held_at_first_ + kPendingBytes));
    prompt_ = std::move(info);
    model_ = std::move(use);
    tools_ = {model_->engine->tokenizer(), generation.prompt.tool_markers};
  }
  return Submit(*generation.model, std::move(generation.options),
                TimeLeft(context_), start_, this->shared_from_this());
}

template <typename Request, typename Response>
bool StreamCall<Request, Response>::HasRoom(int64_t bytes) {
  if (pending_.empty()) return true;  // one is always sent
  if (pending_.size() >= kMaxPending || pending_bytes_ >= kMaxPendingBytes) {
    return false;
  }
  const int64_t waiting = static_cast<int64_t>(pending_bytes_) + bytes;
  return held_.Grow(held_at_first_ + kReplyPerByte * waiting).ok();
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
  if (!HasRoom(WireBytes(output))) {
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
  held_.Shrink(held_at_first_ +
               std::max(kPendingBytes,
                        kReplyPerByte * static_cast<int64_t>(pending_bytes_)));
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
  if (is_finished_ || !end_.has_value()) return;
  // Until all is sent, and until the end is.
  slow_reader_.Start();
  if (!pending_.empty()) return;
  is_finished_ = true;
  this->Finish(ToGrpc(*end_, request_id_));
}

template <typename Request, typename Response>
void StreamCall<Request, Response>::OnDone() {
  {
    absl::MutexLock lock(&mu_);
    slow_reader_.Stop();
  }
  grpc_reference_.reset();
}

template class StreamCall<v1::StreamGenerateRequest,
                          v1::StreamGenerateResponse>;
template class StreamCall<v1::ChatRequest, v1::ChatResponse>;

}  // namespace plimsoll::services
