// One load of a model: plan, lease, arena, weights.
#ifndef PLIMSOLL_SERVICES_WORKER_MODEL_LOADER_H_
#define PLIMSOLL_SERVICES_WORKER_MODEL_LOADER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/memory_plan.h"
#include "services/common/flags.h"
#include "services/worker/lease_keeper.h"
#include "services/worker/loaded_model.h"
#include "services/worker/options.h"
#include "services/worker/planner_client.h"
#include "worker/engine.h"

namespace plimsoll::services {

struct LoadHooks {
  // Called once, as soon as the plan is known and granted.
  std::function<void(const planner::MemoryPlan&)> on_plan;
  // Asked before every chunk; what is not OK ends the load.
  std::function<absl::Status(const worker::LoadProgress&)> on_progress;
};

// Loads models for one worker; one load at a time, so that two never plan on
// the same free bytes. Release() may be called at any time.
class ModelLoader {
 public:
  // Plans and reserves again when another worker was faster.
  static constexpr int kMaxReserveAttempts = 3;

  // Without a planner both pointers are null; else they outlive it.
  ModelLoader(const WorkerOptions& options, PlannerClient* client,
              LeaseKeeper* keeper)
      : options_(options), client_(client), keeper_(keeper) {}

  // `held_bytes` are those of the worker's models that are loaded already.
  // Everything is given back if it fails.
  // Errors: kResourceExhausted, with the numbers and what to try, if it does
  // not fit; kUnavailable if the planner does not answer or the lease ended;
  // what ModelFile, Layout, Engine::Load and the hooks report.
  absl::StatusOr<std::unique_ptr<LoadedModel>> Load(
      const ModelFlag& flag, const planner::LoadOptions& options,
      int64_t held_bytes, const LoadHooks& hooks);

  // To be told before a model's memory is freed; then Release().
  void Retire(const LeaseGrant& lease);
  // Gives a model's lease back, once its memory is free. `shortfall_bytes` > 0:
  // its load failed for want of them.
  void Release(const LeaseGrant& lease, int64_t shortfall_bytes = 0);

 private:
  struct Granted {
    planner::MemoryPlan plan;
    std::optional<LeaseGrant> lease;
  };

  absl::StatusOr<Granted> PlanAlone(const worker::ModelFile& file,
                                    const planner::LoadOptions& options,
                                    const std::string& name,
                                    int64_t held_bytes);
  absl::StatusOr<Granted> PlanAndReserve(const worker::ModelFile& file,
                                         const planner::LoadOptions& options,
                                         const std::string& name,
                                         int64_t held_bytes);
  // What a failed load lacked of the bytes that were granted: 0 if it failed
  // for another reason.
  int64_t ShortfallBytes(const absl::Status& status,
                         const planner::MemoryPlan& plan) const;
  absl::StatusOr<std::unique_ptr<LoadedModel>> Fill(worker::ModelFile& file,
                                                    const ModelFlag& flag,
                                                    const Granted& granted,
                                                    const LoadHooks& hooks);
  absl::Status Confirm(const LoadedModel& model);
  // Errors: kUnavailable if the device is lost, which is reported then. What is
  // held there is freed by the process's end alone.
  absl::Status CheckDevice() const;

  const WorkerOptions& options_;
  PlannerClient* const client_;
  LeaseKeeper* const keeper_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODEL_LOADER_H_
