// The reports of an engine about its memory, its load and its requests.
#ifndef PLIMSOLL_WORKER_ENGINE_ENGINE_REPORTS_H_
#define PLIMSOLL_WORKER_ENGINE_ENGINE_REPORTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace plimsoll::worker {

// The memory of one part of a model, or of all parts together. What belongs to
// the whole process is counted once.
struct MemoryReport {
  int64_t planned_bytes;    // the arena's
  int64_t allocated_bytes;  // bytes the device gave, less its rounding
  int64_t device_allocations_after_load;
  int64_t peak_rss_bytes;
  int64_t vocab_bytes;   // tokenizer tables, measured
  bool vocab_on_device;  // otherwise they are in the host's memory
  int64_t table_bytes;   // page tables of the cache, measured
  // How many of the free bytes that a device with its own memory reports were
  // gone after the load; other processes may have taken some of them. Absent on
  // the host. Where several parts share a device, the first part has the number
  // of all of them.
  std::optional<int64_t> device_taken_bytes;
  // The CPU's arena, if it computes experts of layers on another device.
  int64_t host_planned_bytes = 0;
  int64_t host_allocated_bytes = 0;
};

// How busy an engine is.
struct EngineLoad {
  int64_t n_slots;
  int64_t sessions;
  int64_t running;
  int64_t waiting;
  int64_t max_waiting;
  int64_t kv_pages;       // pages that all slots share
  int64_t kv_used_pages;  // after the last step
  // Pages that running requests and sessions may need at most. Absent with
  // preemption, which reserves none.
  std::optional<int64_t> kv_reserved_pages;
  int64_t steps;
  int64_t generated_tokens;
  int64_t prompt_tokens;          // computed
  int64_t cached_tokens;          // prompt tokens found in the cache
  int64_t draft_tokens;           // guessed and computed
  int64_t accepted_draft_tokens;  // guessed right
  // How often a sequence lost its slot, because pages ran out or others had
  // waited for too long.
  int64_t preemptions;
};

enum class RequestState {
  kWaiting,  // for a slot
  kRunning,
  kParked,  // it holds a slot while its reader is behind
};

// A stream that has not ended.
struct RequestInfo {
  std::string request_id;
  RequestState state;
  int64_t n_prompt;
  int64_t n_generated;
  absl::Duration age;  // since Submit
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_ENGINE_REPORTS_H_
