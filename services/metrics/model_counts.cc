#include "services/metrics/model_counts.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/sampling/non_finite.h"

namespace plimsoll::services {
namespace {

absl::string_view WordOf(worker::FinishReason reason) {
  switch (reason) {
    case worker::FinishReason::kEndToken:
      return "end_token";
    case worker::FinishReason::kStopToken:
      return "stop_token";
    case worker::FinishReason::kStopString:
      return "stop_string";
    case worker::FinishReason::kMaxTokens:
      return "max_tokens";
    case worker::FinishReason::kLength:
      return "length";
    case worker::FinishReason::kUnknown:
      break;
  }
  return "other";
}

absl::string_view WordOf(const absl::Status& error) {
  if (worker::IsNonFiniteLogits(error)) return "non_finite";
  switch (error.code()) {
    case absl::StatusCode::kCancelled:
      return "cancelled";
    case absl::StatusCode::kDeadlineExceeded:
      return "deadline_exceeded";
    case absl::StatusCode::kAborted:
      return "aborted";
    case absl::StatusCode::kOutOfRange:
      return "context_full";
    case absl::StatusCode::kResourceExhausted:
      return "resource_exhausted";
    case absl::StatusCode::kUnavailable:
      return "unavailable";
    default:
      return "other";
  }
}

absl::string_view RefusalWordOf(absl::StatusCode error) {
  switch (error) {
    case absl::StatusCode::kInvalidArgument:
      return "invalid";
    case absl::StatusCode::kOutOfRange:
      return "prompt_too_long";
    case absl::StatusCode::kResourceExhausted:
      return "queue_full";
    case absl::StatusCode::kUnavailable:
      return "draining";
    case absl::StatusCode::kNotFound:
      return "no_session";
    case absl::StatusCode::kFailedPrecondition:
      return "session_busy";
    default:
      return "other";
  }
}

// The index of a word that `words` has.
template <typename Words>
size_t IndexOf(const Words& words, absl::string_view word) {
  return static_cast<size_t>(std::find(words.begin(), words.end(), word) -
                             words.begin());
}

}  // namespace

size_t RefusalOf(absl::StatusCode error) {
  return IndexOf(kRefusals, RefusalWordOf(error));
}

size_t ResultOf(const worker::RequestRecord& request) {
  const absl::string_view word = request.status.ok()
                                     ? WordOf(request.info.reason)
                                     : WordOf(request.status);
  return IndexOf(kResults, word);
}

void ModelCounts::AddSubmit(const absl::Status& status) {
  ++(status.ok() ? admitted : refused[RefusalOf(status.code())]);
}

void ModelCounts::Add(const worker::StepRecord& record) {
  const double seconds = absl::ToDoubleSeconds(record.time);
  step.Observe(seconds);
  computed_tokens += record.n_prompt_rows;
  if (record.n_decode_rows > 0) inter_token.Observe(seconds);
}

void ModelCounts::Add(const worker::RequestRecord& record) {
  const worker::FinishInfo& info = record.info;
  ++results[ResultOf(record)];
  cached_tokens += info.n_cached;
  evictions += info.n_evictions;
  evicted_tokens += info.n_evicted;
  queued.Observe(absl::ToDoubleSeconds(info.queued));
  request.Observe(absl::ToDoubleSeconds(info.first_token + info.decode));
  prompt_tokens.Observe(static_cast<double>(info.n_prompt));
  generated_tokens.Observe(static_cast<double>(info.n_generated));
  if (info.n_generated > 0) {
    first_token.Observe(absl::ToDoubleSeconds(info.first_token));
  }
  if (info.n_generated > 1) {
    const auto n = static_cast<double>(info.n_generated - 1);
    per_token.Observe(absl::ToDoubleSeconds(info.decode) / n);
  }
}

}  // namespace plimsoll::services
