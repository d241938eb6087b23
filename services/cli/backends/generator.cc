// Reads the deltas of a call to its end.
#include "services/cli/backends/generator.h"

#include "base/status_macros.h"

namespace plimsoll::cli {
namespace {

void AddDelta(const v1::StreamGenerateResponse& delta,
              v1::GenerateResponse& response) {
  if (delta.has_prompt()) {
    *response.mutable_prompt_ids() = delta.prompt().prompt_ids();
    response.set_model(delta.prompt().model());
    response.set_request_id(delta.prompt().request_id());
    response.set_chat_format(delta.prompt().chat_format());
  }
  response.mutable_text()->append(delta.text());
  response.mutable_reasoning()->append(delta.reasoning());
  response.mutable_tokens()->MergeFrom(delta.tokens());
  response.mutable_evictions()->MergeFrom(delta.evictions());
  response.mutable_prompt_logprobs()->MergeFrom(delta.prompt_logprobs());
  response.mutable_tool_calls()->MergeFrom(delta.tool_calls());
  if (!delta.has_finish()) return;
  const v1::FinishInfo& finish = delta.finish();
  response.set_finish_reason(finish.finish_reason());
  if (finish.has_stop_string()) {
    response.set_stop_string(finish.stop_string());
  }
  *response.mutable_timing() = finish.timing();
  *response.mutable_usage() = finish.usage();
  *response.mutable_memory() = finish.memory();
}

}  // namespace

absl::StatusOr<v1::GenerateResponse> Collect(
    ReplyStream& stream,
    absl::FunctionRef<void(const v1::StreamGenerateResponse&)> on_delta) {
  v1::GenerateResponse response;
  response.set_text("");
  bool finished = false;
  while (true) {
    ASSIGN_OR_RETURN(const auto delta, stream.Next());
    if (!delta.has_value()) break;
    AddDelta(*delta, response);
    finished |= delta->has_finish();
    on_delta(*delta);
  }
  if (!finished) {
    return absl::UnavailableError(
        "the stream broke off before its end; the text is not complete");
  }
  return response;
}

}  // namespace plimsoll::cli
