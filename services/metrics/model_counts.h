// The counts of a model and of a device's leases, without a lock.
#ifndef PLIMSOLL_SERVICES_METRICS_MODEL_COUNTS_H_
#define PLIMSOLL_SERVICES_METRICS_MODEL_COUNTS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "services/metrics/histogram.h"
#include "services/worker/models/worker_observer.h"
#include "worker/engine/engine_observer.h"

namespace plimsoll::services {

// Up to 10 s these are OpenTelemetry's bounds for the time to the first token;
// a queue may take longer.
inline constexpr std::array kWaitBounds = {
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25, 0.5,
    0.75,  1.0,   2.5,  5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0};
// OpenTelemetry's bounds for the time per output token, and shorter ones for
// small models.
inline constexpr std::array kTokenBounds = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
    0.15,  0.2,    0.3,   0.4,  0.5,   0.75, 1.0,   2.5};
// OpenTelemetry's bounds for a request's duration, and two longer ones.
inline constexpr std::array kRequestBounds = {
    0.01, 0.02, 0.04,  0.08,  0.16,  0.32,  0.64,   1.28,
    2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68};
inline constexpr std::array kCountBounds = {
    1.0,     4.0,      16.0,     64.0,      256.0,      1'024.0,
    4'096.0, 16'384.0, 65'536.0, 262'144.0, 1'048'576.0};

// The results of a request: the reasons of FinishReason, then errors.
inline constexpr std::array kResults = {
    "end_token",    "stop_token",         "stop_string",       "max_tokens",
    "length",       "cancelled",          "deadline_exceeded", "aborted",
    "context_full", "resource_exhausted", "unavailable",       "non_finite",
    "other"};

// The reasons for which an engine refuses a request.
inline constexpr std::array kRefusals = {
    "invalid",    "prompt_too_long", "queue_full", "draining",
    "no_session", "session_busy",    "other"};

// Thread-safe.
struct ModelCounts {
  using Count = std::atomic<int64_t>;

  // Counts the result of a Submit.
  void AddSubmit(const absl::Status& status);
  void Add(const worker::StepRecord& step);
  void Add(const worker::RequestRecord& request);

  Histogram step{kTokenBounds};
  Histogram inter_token{kTokenBounds};
  Histogram first_token{kWaitBounds};
  Histogram per_token{kTokenBounds};
  Histogram queued{kWaitBounds};
  Histogram request{kRequestBounds};
  Histogram prompt_tokens{kCountBounds};
  Histogram generated_tokens{kCountBounds};
  std::array<Count, kResults.size()> results = {};
  Count admitted = 0;
  std::array<Count, kRefusals.size()> refused = {};
  Count computed_tokens = 0;  // tokens of prompts
  Count cached_tokens = 0;
  Count evictions = 0;
  Count evicted_tokens = 0;
  Count loads = 0;
  Count failed_loads = 0;
  Count unloads = 0;
  std::atomic<double> load_seconds = 0;  // time of the last load
};

// Leases on one device.
struct LeaseCounts {
  ModelCounts::Count granted = 0;
  ModelCounts::Count released = 0;
  ModelCounts::Count lost = 0;
};

// Returns the index into kRefusals of the reason of an error of Submit.
size_t RefusalOf(absl::StatusCode error);

// Returns the index into kResults of the way in which a request ended.
size_t ResultOf(const worker::RequestRecord& request);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_METRICS_MODEL_COUNTS_H_
