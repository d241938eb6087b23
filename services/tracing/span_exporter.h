// Spans wait here until a thread hands them over in batches.
#ifndef PLIMSOLL_SERVICES_TRACING_SPAN_EXPORTER_H_
#define PLIMSOLL_SERVICES_TRACING_SPAN_EXPORTER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/sync/steady_mutex.h"
#include "services/host/background.h"
#include "services/tracing/drop_news.h"
#include "services/tracing/span.h"

namespace plimsoll::services {

// Sends spans to a receiver.
class SpanSender {
 public:
  virtual ~SpanSender() = default;
  // Returns how many of `spans` were taken. Blocks for `patience` at most. One
  // thread calls it.
  virtual absl::StatusOr<int64_t> Send(const std::vector<Span>& spans,
                                       absl::Duration patience) = 0;
  // Makes the running Send and all later ones return soon. Any thread may call
  // it.
  virtual void Cancel() = 0;
};

// Batches that the receiver does not take are dropped and counted, and so are
// spans that find the queue full: adding a span never waits. Thread-safe,
// except for construction and destruction.
class SpanExporter {
 public:
  static constexpr size_t kMaxQueued = 2'048;
  static constexpr size_t kMaxBatch = 256;
  // The first span of a batch waits this long for others.
  static constexpr absl::Duration kMaxDelay = absl::Seconds(1);
  // A batch must be taken within this time.
  static constexpr absl::Duration kMaxSend = absl::Seconds(5);
  // The destructor waits this long until the queue is sent.
  static constexpr absl::Duration kMaxFlush = absl::Seconds(2);

  // Tests use other values.
  struct Waits {
    absl::Duration delay = kMaxDelay;
    absl::Duration flush = kMaxFlush;
  };

  // Errors: kResourceExhausted if the system gives no thread.
  static absl::StatusOr<std::unique_ptr<SpanExporter>> Start(
      std::unique_ptr<SpanSender> sender, const Waits& waits);
  // Sends the waiting spans. Spans that are left after `flush` are dropped.
  ~SpanExporter();
  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;

  // Never blocks.
  void Add(Span span) ABSL_LOCKS_EXCLUDED(mu_);

  int64_t n_sent() const { return n_sent_; }
  int64_t n_dropped() const { return n_dropped_; }

 private:
  SpanExporter(std::unique_ptr<SpanSender> sender, const Waits& waits);
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  // The next batch; empty at the end.
  std::vector<Span> NextBatch() ABSL_LOCKS_EXCLUDED(mu_);
  // Logs the result of a batch if it is news.
  void Tell(const absl::Status& status);

  const std::unique_ptr<SpanSender> sender_;
  const Waits waits_;
  std::atomic<int64_t> n_sent_ = 0;
  std::atomic<int64_t> n_dropped_ = 0;
  DropNews news_;  // used by the thread only
  SteadyMutex mu_;
  std::deque<Span> queue_ ABSL_GUARDED_BY(mu_);
  bool is_ending_ ABSL_GUARDED_BY(mu_) = false;
  bool is_cut_off_ ABSL_GUARDED_BY(mu_) = false;
  bool is_done_ ABSL_GUARDED_BY(mu_) = false;
  Background thread_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_TRACING_SPAN_EXPORTER_H_
