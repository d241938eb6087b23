#include "services/worker/calls/stream_call.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/sync/steady_mutex.h"
#include "services/generation/message_bytes.h"
#include "services/server/call.h"
#include "services/wire/errors.h"

namespace plimsoll::services {

template <typename Request, typename Response>
StreamCall<Request, Response>* StreamCall<Request, Response>::Start(
    grpc::CallbackServerContext& context, const CallRoom& room,
    const Request& request) {
  return Base::Start(std::shared_ptr<StreamCall>(new StreamCall(context, room)),
                     room, request,
                     [&request](StreamCall& call, ServedModel model) {
                       return call.Begin(request, std::move(model));
                     });
}

template <typename Request, typename Response>
absl::Status StreamCall<Request, Response>::Begin(const Request& request,
                                                  ServedModel model) {
  const auto stop = [this] { return this->preparation_.Check(); };
  ASSIGN_OR_RETURN(Generation generation,
                   this->PrepareRequest(request, std::move(model), stop));
  const std::vector<int32_t>& ids = generation.options.prompt_ids;
  RETURN_IF_ERROR(
      CheckReplyBytes(WireBytes(ids) + kReplyFrameBytes, "shorten the prompt"));
  v1::PromptInfo info = DescribePrompt(generation, this->request_id_);
  {
    SteadyMutexLock lock(&mu_);
    held_at_first_ = held_.bytes();
    RETURN_IF_ERROR(held_.Grow(held_at_first_ + kPendingBytes));
    prompt_ = std::move(info);
  }
  generation.options.deadline = this->start_ + TimeLeft(this->context_);
  return this->Submit(std::move(generation), this->Self());
}

template <typename Request, typename Response>
bool StreamCall<Request, Response>::HasRoom(int64_t bytes) {
  if (pending_.empty()) return true;  // one is always sent
  if (!pending_.HasRoom(bytes)) return false;
  const int64_t waiting = pending_.bytes() + bytes;
  return held_.Grow(held_at_first_ + kReplyPerByte * waiting).ok();
}

template <typename Request, typename Response>
void StreamCall<Request, Response>::Push(Response message) {
  if (prompt_.has_value()) {
    *message.mutable_prompt() = *std::exchange(prompt_, std::nullopt);
    SendRequestId(this->context_, this->request_id_);
  }
  pending_.Push(std::move(message));
  if (pending_.size() == 1) this->StartWrite(&pending_.front());
}

template <typename Request, typename Response>
bool StreamCall<Request, Response>::Deliver(worker::StepOutput& output) {
  if (!HasRoom(this->SizeOf(output))) {
    slow_reader_.Start();
    return false;
  }
  Response message;
  this->AppendTo(output, message);
  Push(std::move(message));
  return true;
}

template <typename Request, typename Response>
bool StreamCall<Request, Response>::Complete(const absl::Status& status,
                                             const worker::FinishInfo& info) {
  end_ = status;
  if (status.ok() && !is_abandoned_) {
    Response last;
    this->EndReply(info, last, *last.mutable_finish());
    Push(std::move(last));
  }
  FinishIfSent();
  return true;
}

template <typename Request, typename Response>
void StreamCall<Request, Response>::OnWriteDone(bool ok) noexcept {
  SteadyMutexLock lock(&mu_);
  slow_reader_.Stop();
  pending_.PopFront();
  if (!ok) {
    pending_.Clear();
    is_abandoned_ = true;
  }
  if (!pending_.empty()) this->StartWrite(&pending_.front());
  held_.Shrink(held_at_first_ +
               std::max(kPendingBytes, kReplyPerByte * pending_.bytes()));
  FinishIfSent();
  if (model_) model_.engine->Wake();
}

template <typename Request, typename Response>
void StreamCall<Request, Response>::FinishIfSent() {
  if (is_finished_ || !end_.has_value()) return;
  // Runs until all is sent, the end too.
  slow_reader_.Start();
  if (!pending_.empty()) return;
  is_finished_ = true;
  this->Finish(EndOfCall(*end_, this->request_id_));
}

template class StreamCall<v1::StreamGenerateRequest,
                          v1::StreamGenerateResponse>;
template class StreamCall<v1::ChatRequest, v1::ChatResponse>;

}  // namespace plimsoll::services
