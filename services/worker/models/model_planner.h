// Decides which layers of a model go on which of a worker's devices.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_PLANNER_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_PLANNER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/layout/layer_split.h"
#include "planner/layout/memory_plan.h"
#include "services/worker/models/options.h"
#include "services/worker/models/planner_client.h"
#include "worker/device/model_file.h"

namespace plimsoll::services {

// Plans for one worker, by itself or by asking its planner. On one device the
// plan is that of Layout; on several devices SplitLayers says where layers lie.
class ModelPlanner {
 public:
  // Bytes by index of the worker's device.
  using BytesByDevice = std::vector<int64_t>;

  // Both must outlive it. `client` is null without a planner.
  ModelPlanner(const WorkerOptions& options, PlannerClient* client)
      : options_(options), client_(client) {}

  // Returns the parts of a model that fits, in the order of their layers, with
  // the plan of each. `held` are the bytes of models that are loaded already.
  // Errors: kResourceExhausted, with the numbers and what to try, if it does
  // not fit; kFailedPrecondition if the planner plans other bytes than the
  // worker, which may be over in a moment; what CheckRunnable, Layout and the
  // planner report.
  absl::StatusOr<std::vector<planner::SplitPart>> Plan(
      const worker::ModelFile& file, const planner::LoadOptions& options,
      const std::string& name, const BytesByDevice& held) const;

 private:
  using Parts = std::vector<planner::SplitPart>;

  absl::StatusOr<Parts> PlanHere(const worker::ModelFile& file,
                                 const planner::LoadOptions& options,
                                 const std::string& name,
                                 const BytesByDevice& held) const;
  // Ask the planner.
  absl::StatusOr<Parts> PlanThere(const PlannedModel& model,
                                  const worker::ModelFile& file,
                                  const BytesByDevice& held) const;
  absl::StatusOr<Parts> SplitThere(const PlannedModel& model,
                                   const worker::ModelFile& file,
                                   const BytesByDevice& held) const;
  absl::Status DoesNotFit(const std::string& name,
                          const v1::PlanSplitResponse& split) const;

  const WorkerOptions& options_;
  PlannerClient* const client_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_PLANNER_H_
