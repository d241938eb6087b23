// What an engine counts while it runs.
#ifndef PLIMSOLL_WORKER_ENGINE_STEP_COUNTERS_H_
#define PLIMSOLL_WORKER_ENGINE_STEP_COUNTERS_H_

#include <atomic>
#include <cstdint>

namespace plimsoll::worker {

// Written by the step thread only; any thread may read it at any time.
struct StepCounters {
  std::atomic<int64_t> kv_used_pages = 0;
  std::atomic<int64_t> kv_reserved_pages = 0;  // without preemption
  std::atomic<int64_t> steps = 0;
  std::atomic<int64_t> generated_tokens = 0;
  std::atomic<int64_t> prompt_tokens = 0;
  std::atomic<int64_t> cached_tokens = 0;
  std::atomic<int64_t> draft_tokens = 0;
  std::atomic<int64_t> accepted_draft_tokens = 0;
  std::atomic<int64_t> preemptions = 0;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_STEP_COUNTERS_H_
