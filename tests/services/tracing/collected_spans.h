// A receiver of spans for tests.
#ifndef PLIMSOLL_TESTS_SERVICES_TRACING_COLLECTED_SPANS_H_
#define PLIMSOLL_TESTS_SERVICES_TRACING_COLLECTED_SPANS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "services/tracing/span_exporter.h"

namespace plimsoll::services {

// What was sent. Thread-safe.
struct CollectedSpans {
  absl::Mutex mu;
  std::vector<std::vector<Span>> batches ABSL_GUARDED_BY(mu);
  bool is_held ABSL_GUARDED_BY(mu) = false;     // Send waits
  bool is_refused ABSL_GUARDED_BY(mu) = false;  // Send fails
  int n_sending ABSL_GUARDED_BY(mu) = 0;        // calls so far
  bool is_cancelled ABSL_GUARDED_BY(mu) = false;
  absl::Duration patience ABSL_GUARDED_BY(mu);  // patience of the last call

  std::vector<Span> All() {
    absl::MutexLock lock(&mu);
    std::vector<Span> all;
    for (const auto& batch : batches) {
      all.insert(all.end(), batch.begin(), batch.end());
    }
    return all;
  }
  void AwaitSend(int n) {
    absl::MutexLock lock(&mu);
    const auto has_sent = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
      return n_sending >= n;
    };
    mu.Await(absl::Condition(&has_sent));
  }
  void SetHeld(bool held) {
    absl::MutexLock lock(&mu);
    is_held = held;
  }
};

class CollectingSender final : public SpanSender {
 public:
  explicit CollectingSender(CollectedSpans& spans) : spans_(spans) {}

  absl::StatusOr<int64_t> Send(const std::vector<Span>& spans,
                               absl::Duration patience) override {
    absl::MutexLock lock(&spans_.mu);
    spans_.patience = patience;
    ++spans_.n_sending;
    const auto may_go_on = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(spans_.mu) {
      return !spans_.is_held || spans_.is_cancelled;
    };
    spans_.mu.Await(absl::Condition(&may_go_on));
    if (spans_.is_cancelled) return absl::CancelledError("the end");
    if (spans_.is_refused) return absl::UnavailableError("refused");
    spans_.batches.push_back(spans);
    return static_cast<int64_t>(spans.size());
  }
  void Cancel() override {
    absl::MutexLock lock(&spans_.mu);
    spans_.is_cancelled = true;
  }

 private:
  CollectedSpans& spans_;
};

// An exporter that waits for nothing but its end.
inline std::unique_ptr<SpanExporter> NewExporterWithFlush(
    absl::Duration flush, CollectedSpans& spans) {
  return *SpanExporter::Start(std::make_unique<CollectingSender>(spans),
                              {.delay = absl::ZeroDuration(), .flush = flush});
}
inline std::unique_ptr<SpanExporter> NewExporter(CollectedSpans& spans) {
  return NewExporterWithFlush(absl::InfiniteDuration(), spans);
}

}  // namespace plimsoll::services

#endif  // PLIMSOLL_TESTS_SERVICES_TRACING_COLLECTED_SPANS_H_
