// The interface by which an engine reports its work to metrics and logs.
#ifndef PLIMSOLL_WORKER_ENGINE_ENGINE_OBSERVER_H_
#define PLIMSOLL_WORKER_ENGINE_ENGINE_OBSERVER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/engine/token_sink.h"

namespace plimsoll::worker {

// A step that was computed.
struct StepRecord {
  absl::Duration time;        // with the hand-over of its output
  int64_t n_sequences = 0;    // sequences that had rows in it
  int64_t n_decode_rows = 0;  // rows of sequences that generate
  int64_t n_prompt_rows = 0;  // rows of prompts
};

// A request that was submitted and has ended.
struct RequestRecord {
  std::string request_id;
  std::string tenant;
  absl::Status status;  // OK: the reply is complete
  FinishInfo info;
};

// The step thread calls it between two steps, without a lock, but for OnSubmit.
// No method may block, and none has to be overridden.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  // What a Submit returns. The thread that submits calls it, at the same time
  // as others and maybe after the request's end.
  virtual void OnSubmit(const absl::Status& /*status*/) {}
  virtual void OnStep(const StepRecord& /*step*/) {}
  virtual void OnRequestEnd(const RequestRecord& /*request*/) {}
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_ENGINE_OBSERVER_H_
