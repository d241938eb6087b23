// One load of a model: plan, lease, arena, weights.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_LOADER_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_LOADER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/layout/layer_split.h"
#include "planner/layout/memory_plan.h"
#include "services/server/flags.h"
#include "services/worker/models/lease_keeper.h"
#include "services/worker/models/loaded_model.h"
#include "services/worker/models/model_planner.h"
#include "services/worker/models/options.h"
#include "services/worker/models/planner_client.h"
#include "worker/engine/engine.h"

namespace plimsoll::services {

struct LoadHooks {
  // Called once, with the plan's parts in order, as soon as they are granted.
  std::function<void(const std::vector<planner::SplitPart>&)> on_plan;
  // Called before every chunk, also while a digest is checked; an error ends
  // the load.
  std::function<absl::Status(const worker::LoadProgress&)> on_progress;
  // Returns the bytes of the worker's models that are loaded.
  std::function<ModelPlanner::BytesByDevice()> held;
  // Called if the plan does not fit, with the refusal. After an OK, which must
  // mean that there is more memory than before, the model is planned again; an
  // error ends the load. May be null.
  std::function<absl::Status(const absl::Status& refusal)> make_room = nullptr;
};

// Loads models for one worker, one at a time, so that two loads never plan on
// the same free bytes. Release() may be called at any time.
class ModelLoader {
 public:
  // How often it plans and reserves if other workers are faster.
  static constexpr int kMaxReserveAttempts = 3;

  // Without a planner both pointers are null. Else they must outlive the
  // loader.
  ModelLoader(const WorkerOptions& options, PlannerClient* client,
              LeaseKeeper* keeper)
      : options_(options),
        client_(client),
        keeper_(keeper),
        planner_(options, client) {}

  // Loads a model. It takes a lease for each part, all or none, and gives
  // everything back if the load fails.
  // Errors: kResourceExhausted, with the numbers and what to try, if it does
  // not fit; kUnavailable if the planner does not answer or a lease ended;
  // what ModelFile, CheckDigest, Layout, Engine::Load and the hooks report.
  absl::StatusOr<std::unique_ptr<LoadedModel>> Load(
      const ModelFlag& flag, const planner::LoadOptions& options,
      const LoadHooks& hooks);

  // Call it before a model's memory is freed, and Release() afterwards.
  void Retire(const LeaseGrant& lease);
  // Gives a part's lease back once its memory is free. If `shortfall_bytes` is
  // not 0, its load failed because that many bytes were missing.
  void Release(const LeaseGrant& lease, int64_t shortfall_bytes = 0);

 private:
  struct Granted {
    std::vector<planner::SplitPart> parts = {};
    std::vector<LeaseGrant> leases = {};  // one for each part, or none
    // The bytes of the other models when it was planned.
    ModelPlanner::BytesByDevice held = {};
  };

  absl::StatusOr<Granted> PlanAndReserve(const worker::ModelFile& file,
                                         const planner::LoadOptions& options,
                                         const std::string& name,
                                         const LoadHooks& hooks);
  // Plans, and has room made as long as the plan does not fit. What is returned
  // has no lease yet.
  absl::StatusOr<Granted> Plan(const worker::ModelFile& file,
                               const planner::LoadOptions& options,
                               const std::string& name, const LoadHooks& hooks);
  // Takes a lease for each part, in their order, or none.
  absl::StatusOr<std::vector<LeaseGrant>> ReserveAll(
      const std::string& name, const std::vector<planner::SplitPart>& parts);
  // Gives back the leases of a load that failed.
  void ReleaseFailed(const Granted& granted, const absl::Status& status);
  // Checks the file's digest. It is done once the memory is granted: a load
  // that waits for memory is tried every second.
  absl::Status Verify(worker::ModelFile& file, const ModelFlag& flag,
                      const Granted& granted, const LoadHooks& hooks) const;
  absl::StatusOr<std::unique_ptr<LoadedModel>> Fill(worker::ModelFile& file,
                                                    const ModelFlag& flag,
                                                    const Granted& granted,
                                                    const LoadHooks& hooks);
  // Returns OK while memory may be allocated on all leases.
  absl::Status Fence(const Granted& granted) const;
  absl::Status Confirm(const LoadedModel& model);
  // Looks for a lost device and reports it. Only the end of the process frees
  // what is held there. Errors: kUnavailable if a device is lost.
  absl::Status CheckDevices() const;
  const WorkerDevice& DeviceOf(const planner::SplitPart& part) const;

  const WorkerOptions& options_;
  PlannerClient* const client_;
  LeaseKeeper* const keeper_;
  const ModelPlanner planner_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_LOADER_H_
