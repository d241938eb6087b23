// How an engine is set up, besides its plan.
#ifndef PLIMSOLL_WORKER_ENGINE_ENGINE_OPTIONS_H_
#define PLIMSOLL_WORKER_ENGINE_ENGINE_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/device/precision.h"

namespace plimsoll::worker {

class ComputeDevice;
class EngineObserver;

// Whether a running request may lose its slot to others.
enum class Preemption {
  kOn,   // it may, and begins again later
  kOff,  // never: it is admitted once all pages that it may need are reserved
};

struct EngineOptions {
  static constexpr int kMaxQueued = 64;
  static constexpr int kMaxThreads = 256;
  // A little below a half: measuring noise must not push it above.
  static constexpr double kPromptShare = 0.47;
  // Even with noise in the measurements, streams keep four fifths of their
  // rate.
  static constexpr double kPromptShareBesideOthers = 0.18;
  static constexpr double kLeastPromptShare = 0.05;
  static constexpr double kMostPromptShare = 0.9;

  Precision precision = Precision::kDefault;
  // The device that runs a plan of the whole model; it outlives the engine.
  // Null = this machine's CPU.
  const ComputeDevice* device = nullptr;
  int n_threads = 0;            // on a CPU, to kMaxThreads; 0 = UsableThreads()
  int max_queued = kMaxQueued;  // requests that may wait for a slot
  // Steps pass the parts of a split model in pieces of at least this many rows,
  // so that several devices compute at the same time (step_pieces.h); 0 = never
  // in pieces. Absent = kPieceRows where the parts lie on different devices.
  // The results have the same bits either way.
  std::optional<int64_t> piece_rows = std::nullopt;
  // KV cache bytes that may hold beginnings of prompts to be shared; 0 = none.
  // They are kept in whole pages, and only while no sequence needs the pages.
  int64_t prefix_cache_bytes = std::numeric_limits<int64_t>::max();
  Preemption preemption = Preemption::kOn;
  // The part of a step's time that rows of prompts may take while others
  // decode, kLeastPromptShare to kMostPromptShare.
  double prompt_share = kPromptShare;
  // The part of the time, on average, that rows of prompts may take while
  // streams of other tenants decode; in the same bounds.
  double prompt_share_beside_others = kPromptShareBesideOthers;
  std::function<absl::Time()> clock;  // monotonic; required
  // Told of every step and of every request's end; outlives the engine. Null:
  // there is no observer.
  EngineObserver* observer = nullptr;
  // Called once, from the step thread, when a device fails for good
  // (kUnavailable). The status it returns ends every stream and refuses every
  // later request. Must not block. Null = the device's own error is used.
  std::function<absl::Status(const absl::Status&)> on_device_lost = nullptr;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_ENGINE_OPTIONS_H_
