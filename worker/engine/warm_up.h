// The first steps of a model on a device: they belong to no request, and what
// the device prepares for them is ready when the first request comes.
#ifndef PLIMSOLL_WORKER_ENGINE_WARM_UP_H_
#define PLIMSOLL_WORKER_ENGINE_WARM_UP_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "planner/layout/memory_plan.h"
#include "worker/cache/kv_cache.h"
#include "worker/engine/engine_resources.h"
#include "worker/graph/decoder/stage.h"
#include "worker/graph/model.h"

namespace plimsoll::worker {

// A device makes a graph when it runs a step of a new kind. So the warm-up runs
// a prompt first, then decoding steps with and without guesses, and decoding
// steps of every number of sequences up to 16. The cache is empty afterwards.
class WarmUp {
 public:
  // The resources outlive the object. Their cache must be empty.
  explicit WarmUp(EngineResources& resources)
      : plan_(resources.plan()),
        stages_(resources.stages),
        cache_(*resources.cache),
        model_(*resources.model),
        mtp_(resources.mtp.get()) {}

  // Errors: those of the backends.
  absl::Status Run();

 private:
  absl::Status RunPrompt();
  // Runs decoding steps in the first `n_slots` slots, which have pages.
  absl::Status RunDecoding(int64_t n_slots);
  // Runs one step for each number of rows, each sequence with up to `n_draft`
  // guesses.
  absl::Status RunSteps(std::span<const int64_t> row_counts, int64_t n_draft);
  // Runs a step of the model, and of its MTP head with the same rows.
  absl::Status Step(StepBatch step);
  // The largest number of rows for each list of kernels, up to `most`.
  std::vector<int64_t> StepRowsUpTo(int64_t most) const;

  const planner::MemoryPlan& plan_;
  std::span<const Stage> stages_;
  KvCache& cache_;
  Model& model_;
  Model* mtp_;  // null without an MTP head
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_WARM_UP_H_
