#include "services/tracing/span_exporter.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "base/sync/fault.h"
#include "services/host/clock.h"
#include "services/host/log.h"

namespace plimsoll::services {

SpanExporter::SpanExporter(std::unique_ptr<SpanSender> sender,
                           const Waits& waits)
    : sender_(std::move(sender)), waits_(waits) {}

absl::StatusOr<std::unique_ptr<SpanExporter>> SpanExporter::Start(
    std::unique_ptr<SpanSender> sender, const Waits& waits) {
  std::unique_ptr<SpanExporter> exporter(
      new SpanExporter(std::move(sender), waits));
  ASSIGN_OR_RETURN(exporter->thread_,
                   Background::Start([raw = exporter.get()] { raw->Loop(); }));
  return exporter;
}

SpanExporter::~SpanExporter() {
  {
    SteadyMutexLock lock(&mu_);
    is_ending_ = true;
    mu_.AwaitFor(absl::Condition(&is_done_), waits_.flush);
    is_cut_off_ = true;
  }
  sender_->Cancel();
  thread_.Join();
}

void SpanExporter::Add(Span span) {
  {
    SteadyMutexLock lock(&mu_);
    if (queue_.size() < kMaxQueued && !PLIMSOLL_FAULT("span.queue")) {
      queue_.push_back(std::move(span));
      return;
    }
  }
  ++n_dropped_;
}

std::vector<Span> SpanExporter::NextBatch() {
  const auto has_some = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return is_ending_ || !queue_.empty();
  };
  const auto is_full = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return is_ending_ || queue_.size() >= kMaxBatch;
  };
  SteadyMutexLock lock(&mu_);
  mu_.Await(absl::Condition(&has_some));
  mu_.AwaitFor(absl::Condition(&is_full), waits_.delay);
  std::vector<Span> batch;
  if (is_cut_off_) return batch;
  const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(
                                        std::min(queue_.size(), kMaxBatch));
  batch.assign(std::make_move_iterator(queue_.begin()),
               std::make_move_iterator(end));
  queue_.erase(queue_.begin(), end);
  return batch;
}

void SpanExporter::Loop() {
  while (true) {
    const std::vector<Span> batch = NextBatch();
    if (batch.empty()) break;
    const absl::StatusOr<int64_t> n_taken = sender_->Send(batch, kMaxSend);
    n_sent_ += n_taken.value_or(0);
    n_dropped_ += static_cast<int64_t>(batch.size()) - n_taken.value_or(0);
    Tell(n_taken.status());
  }
  SteadyMutexLock lock(&mu_);
  n_dropped_ += static_cast<int64_t>(queue_.size());
  queue_.clear();
  is_done_ = true;
}

void SpanExporter::Tell(const absl::Status& status) {
  const auto line = news_.Take(BootTime(), status.ok(), n_dropped_);
  if (!line.has_value()) return;
  if (!line->is_warning) {
    return Log(LogLevel::kInfo, "the collector takes spans again",
               {{"dropped", line->n_dropped}});
  }
  Log(LogLevel::kWarning, "spans were dropped",
      {{"dropped", line->n_dropped},
       {"error", status.ok() ? "the queue was full, or the collector refused "
                               "some of a batch"
                             : std::string(status.message())}});
}

}  // namespace plimsoll::services
