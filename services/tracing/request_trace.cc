#include "services/tracing/request_trace.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace plimsoll::services {
namespace {

// The words that OpenAI's clients know.
std::string ReasonOf(const worker::FinishInfo& info) {
  switch (info.reason) {
    case worker::FinishReason::kUnknown:
      return "";
    case worker::FinishReason::kMaxTokens:
    case worker::FinishReason::kLength:
      return "length";
    default:
      return "stop";
  }
}

}  // namespace

std::shared_ptr<RequestTrace> RequestTrace::Begin(
    const std::optional<TraceContext>& parent, const std::string& request_id) {
  if (Tracer::Active() == nullptr) return nullptr;
  return std::shared_ptr<RequestTrace>(new RequestTrace(parent, request_id));
}

RequestTrace::RequestTrace(const std::optional<TraceContext>& parent,
                           const std::string& request_id)
    : span_("request", SpanKind::kServer, parent) {
  context_ = span_.context();
  span_.Set("gen_ai.provider.name", std::string("plimsoll"));
  span_.Set("plimsoll.request_id", request_id);
}

RequestTrace::~RequestTrace() { End(); }

void RequestTrace::SetOperation(absl::string_view operation) {
  absl::MutexLock lock(&mu_);
  operation_ = std::string(operation);
}

void RequestTrace::SetModel(const std::string& model) {
  absl::MutexLock lock(&mu_);
  model_ = model;
}

void RequestTrace::AddReply(const worker::FinishInfo& info,
                            const absl::Status& status) {
  Fail(status);
  absl::MutexLock lock(&mu_);
  // A request that was refused has taken nothing.
  if (!span_.is_recorded() || info.n_prompt == 0) return;
  if (n_replies_ < kMaxReplies) {
    const absl::Time end = absl::Now();
    const absl::Time first = end - info.decode;
    const absl::Time started = first - info.prefill;
    // Two clocks took the times: of the system and of the engine.
    const auto clamped = [begin = span_.begin()](absl::Time time) {
      return std::max(begin, time);
    };
    span_.AddChild("queue", clamped(started - info.queued), clamped(started));
    span_.AddChild("prefill", clamped(started), clamped(first));
    span_.AddChild("decode", clamped(first), clamped(end));
  }
  Count({info.n_prompt, info.n_cached, info.n_generated, ReasonOf(info)});
}

void RequestTrace::AddReply(const ReplyUsage& usage) {
  absl::MutexLock lock(&mu_);
  if (span_.is_recorded()) Count(usage);
}

void RequestTrace::Count(const ReplyUsage& usage) {
  n_input_ += usage.n_input;
  n_cached_ += usage.n_cached;
  n_output_ += usage.n_output;
  if (n_replies_ < kMaxReplies && !usage.finish_reason.empty()) {
    finish_reasons_.push_back(usage.finish_reason);
  }
  ++n_replies_;
}

void RequestTrace::Fail(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  if (code_ == absl::StatusCode::kOk) code_ = status.code();
}

void RequestTrace::End() {
  absl::MutexLock lock(&mu_);
  if (!span_.is_recorded()) return;
  if (!operation_.empty()) {
    span_.SetName(model_.empty() ? operation_
                                 : absl::StrCat(operation_, " ", model_));
    span_.Set("gen_ai.operation.name", operation_);
  }
  if (!model_.empty()) span_.Set("gen_ai.request.model", model_);
  if (n_replies_ > 0) {
    span_.Set("gen_ai.usage.input_tokens", n_input_);
    span_.Set("gen_ai.usage.output_tokens", n_output_);
    span_.Set("gen_ai.usage.cache_read.input_tokens", n_cached_);
    span_.Set("gen_ai.response.finish_reasons", std::move(finish_reasons_));
  }
  span_.End(code_);
}

}  // namespace plimsoll::services
