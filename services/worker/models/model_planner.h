// Where a model's layers go on a worker's devices.
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

// Plans for one worker: by itself, or as its planner says. On one device the
// plan is that of Layout; on several, layers lie as SplitLayers puts them.
class ModelPlanner {
 public:
  // Bytes by index of the worker's device.
  using BytesByDevice = std::vector<int64_t>;

  // Both outlive it; `client` is null without a planner.
  ModelPlanner(const WorkerOptions& options, PlannerClient* client)
      : options_(options), client_(client) {}

  // The parts of a model that fits, in order: each with what its plan takes of
  // which device. `held` are the bytes of models that are loaded already.
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
  // The same as the planner says.
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
