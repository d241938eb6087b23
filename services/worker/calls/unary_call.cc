#include "services/worker/calls/unary_call.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/sync/steady_mutex.h"
#include "services/generation/call_errors.h"
#include "services/server/call.h"
#include "services/wire/errors.h"

namespace plimsoll::services {

UnaryCall::UnaryCall(grpc::CallbackServerContext& context, const CallRoom& room,
                     v1::GenerateResponse& response)
    : CallReactor(context, room), response_(response) {}

UnaryCall* UnaryCall::Start(grpc::CallbackServerContext& context,
                            const CallRoom& room,
                            const v1::GenerateRequest& request,
                            v1::GenerateResponse& response) {
  return CallReactor::Start(
      std::shared_ptr<UnaryCall>(new UnaryCall(context, room, response)), room,
      request, [&request](UnaryCall& call, ServedModel model) {
        return call.Begin(request, std::move(model));
      });
}

absl::Status UnaryCall::Begin(const v1::GenerateRequest& request,
                              ServedModel model) {
  const auto stop = [this] { return preparation_.Check(); };
  ASSIGN_OR_RETURN(Generation generation,
                   PrepareRequest(request, std::move(model), stop));
  const std::vector<int32_t>& ids = generation.options.prompt_ids;
  const int64_t echo_bytes = WireBytes(ids);
  RETURN_IF_ERROR(
      CheckReplyBytes(echo_bytes + kReplyFrameBytes, "shorten the prompt"));
  {
    SteadyMutexLock lock(&mu_);
    meter_ = ReplyMeter(std::move(held_), echo_bytes);
    SetPrompt(generation, ids, request_id_, response_);
    response_.set_text("");
  }
  generation.options.deadline = start_ + UnaryTimeLeft();
  return Submit(std::move(generation), Self());
}

bool UnaryCall::Deliver(worker::StepOutput& output) {
  refusal_ = meter_.Add(SizeOf(output));
  if (refusal_.ok()) {
    AppendTo(output, response_);
  } else {
    is_abandoned_ = true;
  }
  return true;
}

bool UnaryCall::Complete(const absl::Status& status,
                         const worker::FinishInfo& info) {
  const absl::Status end = refusal_.ok() ? status : EndStatus(refusal_);
  Fail(trace_, end);
  if (end.ok()) {
    EndReply(info, response_, response_);
    SendRequestId(context_, request_id_);
  } else {
    Free(response_);
  }
  meter_.SetFinalBytes(MemoryOfReply(response_));
  slow_reader_.Start();
  Finish(EndOfCall(end, request_id_));
  return true;
}

}  // namespace plimsoll::services
