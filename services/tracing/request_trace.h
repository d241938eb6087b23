// The spans of one request for text.
#ifndef PLIMSOLL_SERVICES_TRACING_REQUEST_TRACE_H_
#define PLIMSOLL_SERVICES_TRACING_REQUEST_TRACE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "services/tracing/tracer.h"
#include "worker/engine/token_sink.h"

namespace plimsoll::services {

// The tokens of a reply, and how it ended.
struct ReplyUsage {
  int64_t n_input = 0;
  int64_t n_cached = 0;  // input tokens that the cache had
  int64_t n_output = 0;
  std::string finish_reason = {};  // empty without one
};

// Makes a span for the server's work, with OpenTelemetry's attributes for
// generative AI, and three child spans for each reply: queue, prefill and
// decode. No span has text of the request or the reply. Thread-safe.
class RequestTrace {
 public:
  // Replies of one request that have spans, and reasons.
  static constexpr int kMaxReplies = 16;

  // Begins the span; returns null if the process has no tracer. `parent` is the
  // caller's trace context.
  static std::shared_ptr<RequestTrace> Begin(
      const std::optional<TraceContext>& parent, const std::string& request_id);
  // Calls End, with the first error of all replies.
  ~RequestTrace();

  // The context of the span; it never changes.
  const std::optional<TraceContext>& context() const { return context_; }
  // The operation, such as "chat", and the model by the name that the worker
  // has for it.
  void SetOperation(absl::string_view operation) ABSL_LOCKS_EXCLUDED(mu_);
  void SetModel(const std::string& model) ABSL_LOCKS_EXCLUDED(mu_);
  // A reply of this process has ended just now.
  void AddReply(const worker::FinishInfo& info, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);
  // A reply of another process has ended.
  void AddReply(const ReplyUsage& usage) ABSL_LOCKS_EXCLUDED(mu_);
  // The request ends with this error. The first one counts.
  void Fail(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  // The request has ended. Later calls do nothing.
  void End() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  RequestTrace(const std::optional<TraceContext>& parent,
               const std::string& request_id);
  void Count(const ReplyUsage& usage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::optional<TraceContext> context_;
  absl::Mutex mu_;
  OpenSpan span_ ABSL_GUARDED_BY(mu_);
  std::string operation_ ABSL_GUARDED_BY(mu_);
  std::string model_ ABSL_GUARDED_BY(mu_);
  int n_replies_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t n_input_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t n_cached_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t n_output_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::string> finish_reasons_ ABSL_GUARDED_BY(mu_);
  absl::StatusCode code_ ABSL_GUARDED_BY(mu_) = absl::StatusCode::kOk;
};

// Remembers the error of a request that may have no trace.
inline void Fail(const std::shared_ptr<RequestTrace>& trace,
                 const absl::Status& status) {
  if (trace != nullptr) trace->Fail(status);
}

// The trace context for the calls of a request that may have no trace.
inline std::optional<TraceContext> ContextOf(
    const std::shared_ptr<RequestTrace>& trace) {
  return trace == nullptr ? std::nullopt : trace->context();
}

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_TRACING_REQUEST_TRACE_H_
