// Reads the parts of a call to its end.
#include "services/cli/backends/generator.h"

#include "base/status_macros.h"

namespace plimsoll::cli {
namespace {

void AddPart(const v1::StreamGenerateResponse& part,
             v1::GenerateResponse& response) {
  if (part.has_prompt()) {
    *response.mutable_prompt_ids() = part.prompt().prompt_ids();
    response.set_model(part.prompt().model());
    response.set_request_id(part.prompt().request_id());
    response.set_chat_format(part.prompt().chat_format());
  }
  response.mutable_text()->append(part.text());
  response.mutable_reasoning()->append(part.reasoning());
  response.mutable_tokens()->MergeFrom(part.tokens());
  response.mutable_evictions()->MergeFrom(part.evictions());
  response.mutable_prompt_logprobs()->MergeFrom(part.prompt_logprobs());
  response.mutable_tool_calls()->MergeFrom(part.tool_calls());
  if (!part.has_finish()) return;
  const v1::FinishInfo& finish = part.finish();
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
    absl::FunctionRef<void(const v1::StreamGenerateResponse&)> on_part) {
  v1::GenerateResponse response;
  response.set_text("");
  bool finished = false;
  while (true) {
    ASSIGN_OR_RETURN(const auto part, stream.Next());
    if (!part.has_value()) break;
    AddPart(*part, response);
    finished |= part->has_finish();
    on_part(*part);
  }
  if (!finished) {
    return absl::UnavailableError(
        "the stream broke off before its end; the text is not complete");
  }
  return response;
}

}  // namespace plimsoll::cli
