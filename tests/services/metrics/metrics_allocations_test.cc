// What the step thread tells is counted without an allocation. Every plain
// operator new of the process is counted, which is why this is an executable of
// its own.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/metrics/worker_metrics.h"
#include "services/worker/models/observer_list.h"

namespace {

std::atomic<int64_t> n_allocations = 0;

}  // namespace

void* operator new(size_t bytes) {
  n_allocations.fetch_add(1, std::memory_order_relaxed);
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace plimsoll::services {
namespace {

TEST(MetricsAllocationsTest, CountingAllocatesNothing) {
  WorkerOptions options;
  options.models = {{"a", "a.gguf"}, {"b", "b.gguf"}};
  WorkerMetrics metrics(options);
  WorkerObserver other;
  ObserverList both({&metrics, &other});
  ModelObserver observer("a", both);
  const worker::StepRecord step = {.time = absl::Milliseconds(7),
                                   .n_sequences = 2,
                                   .n_decode_rows = 1,
                                   .n_prompt_rows = 64};
  worker::RequestRecord request;
  request.info.n_generated = 5;
  const absl::Status refusal =
      absl::ResourceExhaustedError("the queue is full");
  const int64_t before = n_allocations;
  for (int i = 0; i < 100; ++i) {
    observer.OnSubmit(absl::OkStatus());
    observer.OnSubmit(refusal);
    observer.OnStep(step);
    observer.OnRequestEnd(request);
  }
  EXPECT_EQ(n_allocations - before, 0);
  // The counter counts.
  const std::string* const made = new std::string("one");
  EXPECT_GT(n_allocations, before);
  delete made;
}

}  // namespace
}  // namespace plimsoll::services
