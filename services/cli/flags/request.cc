// Converts flags to a request of plimsoll.v1.
#include "services/cli/flags/request.h"

#include <utility>

#include "services/wire/to_proto.h"

namespace plimsoll::cli {

v1::StreamGenerateRequest ToRequest(const SamplingFlags& flags,
                                    std::optional<int64_t> draft_tokens) {
  v1::StreamGenerateRequest request;
  v1::SamplingOptions& sampling = *request.mutable_sampling();
  sampling.set_temperature(flags.sampling.temperature);
  sampling.set_top_k(services::ToUint32(flags.sampling.top_k));
  sampling.set_top_p(flags.sampling.top_p);
  sampling.set_min_p(flags.sampling.min_p);
  sampling.set_seed(flags.sampling.seed);
  sampling.set_typical_p(flags.sampling.typical_p);
  if (draft_tokens) {
    sampling.set_draft_tokens(services::ToUint32(*draft_tokens));
  }
  const worker::LogitBiasOptions& bias = flags.logit_bias;
  sampling.set_repetition_penalty(bias.repetition_penalty);
  sampling.set_presence_penalty(bias.presence_penalty);
  sampling.set_frequency_penalty(bias.frequency_penalty);
  sampling.set_penalty_last_tokens(
      services::ToUint32(bias.penalty_last_tokens));
  for (const worker::LogitBias& one : bias.biases) {
    v1::LogitBias& added = *sampling.add_logit_bias();
    added.set_id(services::ToUint32(one.id));
    added.set_bias(one.bias);
  }
  v1::StoppingOptions& stopping = *request.mutable_stopping();
  if (flags.max_tokens.has_value()) {
    stopping.set_max_tokens(services::ToUint32(*flags.max_tokens));
  }
  if (flags.max_reasoning_tokens.has_value()) {
    stopping.set_max_reasoning_tokens(
        services::ToUint32(*flags.max_reasoning_tokens));
  }
  for (const std::string& text : flags.stop) stopping.add_stop_strings(text);
  for (int64_t id : flags.stop_tokens) {
    stopping.add_stop_token_ids(services::ToUint32(id));
  }
  stopping.set_ignore_eos(flags.ignore_eos);
  if (flags.top_logprobs >= 0) {
    request.mutable_response()->set_top_logprobs(
        services::ToUint32(flags.top_logprobs));
  }
  return request;
}

void SetRawPrompt(std::string text, v1::StreamGenerateRequest& request) {
  v1::TextPrompt& prompt = *request.mutable_text();
  prompt.set_raw_text(std::move(text));
  prompt.set_add_bos(true);
  prompt.set_parse_special(true);
}

void AddMessage(v1::ChatRole role, std::string content,
                v1::ChatPrompt& conversation) {
  v1::ChatMessage& message = *conversation.add_messages();
  message.set_role(role);
  message.set_content(std::move(content));
}

}  // namespace plimsoll::cli
