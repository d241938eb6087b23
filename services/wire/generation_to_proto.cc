#include "services/wire/generation_to_proto.h"

#include <string>

#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

// Replies and parts of a stream have the same fields.
template <typename Message>
void Append(const worker::StepOutput& output, Message& message) {
  for (const worker::TokenOutput& token : output.tokens) {
    *message.add_tokens() = services::ToProto(token);
  }
  for (const worker::Eviction& eviction : output.evictions) {
    *message.add_evictions() = services::ToProto(eviction);
  }
}

template <typename Message>
void AppendScores(const worker::StepOutput& output, Message& message) {
  for (const worker::PromptScore& score : output.prompt_scores) {
    message.add_prompt_logprobs(score.logprob);
  }
}

}  // namespace

v1::MemoryReport ToProto(const worker::MemoryReport& report) {
  v1::MemoryReport message;
  message.set_planned_bytes(ToUint64(report.planned_bytes));
  message.set_allocated_bytes(ToUint64(report.allocated_bytes));
  message.set_device_allocations_after_load(
      ToUint32(report.device_allocations_after_load));
  message.set_peak_rss_bytes(ToUint64(report.peak_rss_bytes));
  message.set_vocab_bytes(ToUint64(report.vocab_bytes));
  if (report.host_planned_bytes > 0) {
    message.set_host_planned_bytes(ToUint64(report.host_planned_bytes));
    message.set_host_allocated_bytes(ToUint64(report.host_allocated_bytes));
  }
  return message;
}

v1::GeneratedToken ToProto(const worker::TokenOutput& token) {
  v1::GeneratedToken message;
  message.set_id(ToUint32(token.id));
  if (token.has_logprob) {
    message.set_logprob(token.logprob);
    message.set_rank(ToUint32(token.rank + 1));
  }
  for (const worker::Candidate& candidate : token.candidates) {
    v1::TokenCandidate& added = *message.add_candidates();
    added.set_id(ToUint32(candidate.id));
    added.set_logprob(candidate.logprob);
  }
  return message;
}

v1::FinishReason ToProto(worker::FinishReason reason) {
  switch (reason) {
    case worker::FinishReason::kUnknown:
      return v1::FINISH_REASON_UNSPECIFIED;
    case worker::FinishReason::kEndToken:
      return v1::FINISH_REASON_END_TOKEN;
    case worker::FinishReason::kStopToken:
      return v1::FINISH_REASON_STOP_TOKEN;
    case worker::FinishReason::kStopString:
      return v1::FINISH_REASON_STOP_STRING;
    case worker::FinishReason::kMaxTokens:
      return v1::FINISH_REASON_MAX_TOKENS;
    case worker::FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

v1::GenerationTiming TimingToProto(const worker::FinishInfo& info,
                                   absl::Duration total) {
  v1::GenerationTiming message;
  *message.mutable_queued() = ToProto(info.queued);
  *message.mutable_prefill() = ToProto(info.prefill);
  *message.mutable_first_token() = ToProto(info.first_token);
  *message.mutable_decode() = ToProto(info.decode);
  *message.mutable_total() = ToProto(total);
  const double prefill = absl::ToDoubleSeconds(info.prefill);
  if (prefill > 0) {
    message.set_prefill_tokens_per_s(
        static_cast<double>(info.n_prompt - info.n_cached) / prefill);
  }
  const double decode = absl::ToDoubleSeconds(info.decode);
  if (decode > 0 && info.n_generated > 1) {
    message.set_decode_tokens_per_s(static_cast<double>(info.n_generated - 1) /
                                    decode);
  }
  return message;
}

v1::TokenUsage UsageToProto(const worker::FinishInfo& info) {
  v1::TokenUsage message;
  message.set_prompt_tokens(ToUint32(info.n_prompt));
  message.set_generated_tokens(ToUint32(info.n_generated));
  if (info.n_evictions > 0) {
    message.set_evictions(static_cast<uint64_t>(info.n_evictions));
    message.set_evicted_tokens(static_cast<uint64_t>(info.n_evicted));
  }
  if (info.n_cached > 0) message.set_cached_tokens(ToUint32(info.n_cached));
  if (info.n_drafted > 0) {
    message.set_draft_tokens(ToUint64(info.n_drafted));
    message.set_accepted_draft_tokens(ToUint64(info.n_accepted));
  }
  return message;
}

v1::Eviction ToProto(const worker::Eviction& eviction) {
  v1::Eviction message;
  message.set_position(static_cast<uint64_t>(eviction.position));
  message.set_tokens(ToUint32(eviction.n_tokens));
  message.set_kept_tokens(ToUint32(eviction.n_kept));
  if (eviction.n_turns > 0) message.set_turns(ToUint32(eviction.n_turns));
  message.set_method(eviction.method == worker::RollMethod::kShift
                         ? v1::ROLL_METHOD_SHIFT
                         : v1::ROLL_METHOD_RECOMPUTE);
  return message;
}

void AppendOutput(const worker::StepOutput& output,
                  v1::GenerateResponse& response) {
  Append(output, response);
  AppendScores(output, response);
}

void AppendOutput(const worker::StepOutput& output,
                  v1::StreamGenerateResponse& part) {
  Append(output, part);
  AppendScores(output, part);
}

void AppendOutput(const worker::StepOutput& output, v1::ChatResponse& part) {
  Append(output, part);
}

v1::Session ToProto(const worker::SessionInfo& info) {
  v1::Session message;
  message.set_session_id(info.id);
  message.set_chat_format(std::string(info.format_name()));
  message.set_busy(info.is_busy);
  message.set_turns(ToUint64(info.n_turns));
  message.set_live_turns(ToUint32(info.n_live_turns));
  message.set_tokens(ToUint64(info.n_tokens));
  message.set_live_tokens(ToUint32(info.n_live_tokens));
  message.set_pinned_tokens(ToUint32(info.n_pinned_tokens));
  message.set_capacity_tokens(ToUint32(info.capacity_tokens));
  message.set_evictions(ToUint64(info.n_evictions));
  message.set_evicted_tokens(ToUint64(info.n_evicted));
  message.set_reserved_bytes(ToUint64(info.reserved_bytes));
  *message.mutable_age() = ToProto(info.age);
  *message.mutable_idle() = ToProto(info.idle);
  *message.mutable_ttl() = ToProto(info.ttl);
  if (info.chat != nullptr) message.set_recompute_reason(info.chat->reason);
  return message;
}

}  // namespace plimsoll::services
