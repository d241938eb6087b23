// The models of a worker and their states: absent, reserving, loading, ready,
// draining, absent.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_REGISTRY_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/sync/progress_mark.h"
#include "base/sync/steady_mutex.h"
#include "planner/layout/layer_split.h"
#include "planner/layout/memory_plan.h"
#include "services/generation/served_model.h"
#include "services/host/hang_watch.h"
#include "services/server/byte_budget.h"
#include "services/worker/models/lease_keeper.h"
#include "services/worker/models/loaded_model.h"
#include "services/worker/models/model_info.h"
#include "services/worker/models/model_loader.h"
#include "services/worker/models/model_table.h"
#include "services/worker/models/options.h"
#include "services/worker/models/planner_client.h"

namespace plimsoll::services {

// The rule for a load whose model does not fit beside the others.
enum class IfFull { kMakeRoom, kRefuse };

// Single flight: any number of loads of one model are one load. Loads of
// different models come one after another. Each load and unload runs on a
// thread of its own.
//
// With WorkerOptions::on_demand a load makes room: models that nobody uses are
// unloaded until it fits by its plan's bytes. If that is not enough, models in
// use are unloaded too: their new calls wait, the running calls end, the model
// is unloaded and the other one is loaded. Then the waiting calls make their
// own model be loaded again. So the calls of every model get their turn. A
// pinned model, or one with an open session, never gives way. Thread-safe.
class ModelRegistry {
 public:
  // Calls that may wait for models to be loaded, for all models together.
  static constexpr size_t kMaxAwaiting = 256;
  // How often a load looks whether models in use have become idle.
  static constexpr absl::Duration kIdlePoll = absl::Milliseconds(5);
  // The longest time for which a system may go on to count freed memory as
  // taken.
  static constexpr absl::Duration kFreedMemoryTime = absl::Seconds(1);
  // Time between two attempts of a load at the start.
  static constexpr absl::Duration kStartRetry = absl::Seconds(1);

  // Without a planner both pointers are null; else they outlive it.
  ModelRegistry(WorkerOptions options, PlannerClient* client,
                LeaseKeeper* keeper);
  // UnloadAll().
  ~ModelRegistry();
  ModelRegistry(const ModelRegistry&) = delete;
  ModelRegistry& operator=(const ModelRegistry&) = delete;

  // The listener gets true once the loads of the start have ended and a model
  // is ready, or if none was to be loaded. Called at once and on every change,
  // under a lock; must not block.
  void SetReadyListener(std::function<void(bool)> listener)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Loads every configured model, unless the worker is lazy. A planner that
  // does not answer, or that has no memory for a load yet, is asked again until
  // it grants it: bytes of a process that crashed come back when that is
  // proven.
  void LoadAtStart() ABSL_LOCKS_EXCLUDED(mu_);

  // The ready model of this name; an empty name means the only model.
  // Errors: kNotFound; kFailedPrecondition if it is not loaded; kUnavailable
  // if it is loading or draining; kInvalidArgument for an empty name where
  // there are several.
  absl::StatusOr<LoadedModel::Use> Use(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mu_);

  // What tenants may take; null if there are no quotas.
  QuotaBook* quotas() const { return options_.quotas; }

  // The ready model of this name, in the form that calls which generate hold.
  // Errors: as Use.
  absl::StatusOr<ServedModel> Serve(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Does what Serve does. But with WorkerOptions::on_demand a model that is not
  // there is loaded: then nothing is returned, and `then` is called later. It
  // must not block.
  // Errors: as Use, but not that the model is not loaded or not ready;
  // kResourceExhausted if kMaxAwaiting calls wait. `then` is never called after
  // an error.
  absl::StatusOr<std::optional<ServedModel>> ServeOrLoad(
      const std::string& name, OnServed then) ABSL_LOCKS_EXCLUDED(mu_);

  // How much of a model's weights its load has read, in percent; 0 before and
  // after that, and if there is no such model.
  int LoadPercent(const std::string& name) ABSL_LOCKS_EXCLUDED(mu_);

  // Starts a load, or joins the one that runs. A refusal is returned and
  // `watcher` is never called.
  // Errors: as Use for the name; kUnavailable while it drains;
  // what ModelLoader::Load reports is told to the watcher.
  absl::Status Load(const std::string& name,
                    const planner::LoadOptions& options,
                    std::shared_ptr<LoadWatcher> watcher,
                    IfFull if_full = IfFull::kMakeRoom)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The options of a load that says nothing else.
  const planner::LoadOptions& load_defaults() const { return options_.load; }

  // Ends a load or drains a model, then calls `done`, maybe at once.
  // Errors: as Use for the name; then `done` is never called.
  absl::Status Unload(const std::string& name, std::function<void()> done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Adds those of `models` that it does not have yet. A call for one of them,
  // or LoadModel, loads it.
  // Errors, after which nothing is added: kFailedPrecondition if the worker
  // loads its models at the start, if `models` lack one that it has, or if one
  // has another file; kUnavailable while it drains.
  absl::Status AddModels(const std::vector<ModelFlag>& models)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Sets how long a model stays loaded without use. Once it was unloaded,
  // WorkerOptions::keep_alive applies again.
  // Errors: as Use for the name.
  absl::Status SetKeepAlive(const std::string& name, absl::Duration keep_alive)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Replaces WorkerOptions::keep_alive, also of models that have it already; a
  // model that SetKeepAlive gave another one keeps that.
  void SetDefaultKeepAlive(absl::Duration keep_alive) ABSL_LOCKS_EXCLUDED(mu_);
  // Replaces WorkerOptions::pinned. Loads and unloads nothing.
  void SetPinned(const std::vector<std::string>& names)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Unloads the models that nobody has used for their keep_alive.
  void UnloadExpired() ABSL_LOCKS_EXCLUDED(mu_);
  bool loads_on_demand() const { return options_.on_demand; }

  // Memory of requests and replies.
  ByteBudget& messages() { return *messages_; }

  // All configured models, by name.
  std::vector<ModelInfo> List() ABSL_LOCKS_EXCLUDED(mu_);

  // Calls `visit` with every model in memory and its state, kReady or
  // kDraining, by name. It does so under a lock: `visit` must not block and not
  // use the registry.
  void Visit(absl::FunctionRef<void(const LoadedModel&, ModelState)> visit)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends every stream with kUnavailable, or with `status`.
  void AbortAll() ABSL_LOCKS_EXCLUDED(mu_);
  void AbortAll(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  // How long the longest of the steps has run that run now; 0 without any.
  absl::Duration LongestStep() ABSL_LOCKS_EXCLUDED(mu_);
  // The step or the load that has not gone on for the longest time. A load goes
  // on with each chunk that it reads or stores. It does not count while it
  // waits for other loads, for models in use, or between attempts.
  Stall LongestStall() ABSL_LOCKS_EXCLUDED(mu_);
  // Refuses loads from now on, unloads everything and returns when all leases
  // are released.
  void UnloadAll() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Entry = ModelEntry;

  // Answers calls that waited, which TakeCalls took from entries.
  void Give(std::vector<ServedCall> answers) ABSL_LOCKS_EXCLUDED(mu_);
  void StartLoad(Entry& entry, const planner::LoadOptions& options,
                 IfFull if_full) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunLoad(Entry& entry, const planner::LoadOptions& options,
               IfFull if_full) ABSL_LOCKS_EXCLUDED(mu_);
  // Calls TryLoad within a span of the trace.
  absl::StatusOr<std::unique_ptr<LoadedModel>> TraceLoad(
      Entry& entry, const planner::LoadOptions& options, IfFull if_full)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<std::unique_ptr<LoadedModel>> TryLoad(
      Entry& entry, const planner::LoadOptions& options, IfFull if_full)
      ABSL_LOCKS_EXCLUDED(mu_);
  // What a load of `entry` tells, and asks for.
  LoadHooks HooksOf(Entry& entry, IfFull if_full);
  // Unloads models so that `wanted`, whose load was refused, has more memory.
  // Errors: those of ChooseEvicted and UnloadFor.
  absl::Status MakeRoom(Entry& wanted, IfFull if_full,
                        const absl::Status& refusal) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns OK, after a moment, if memory that was just freed for `wanted` may
  // still come. Errors: `refusal` if not; those of CheckWanted.
  absl::Status AwaitFreedMemory(const Entry& wanted,
                                const absl::Status& refusal)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Unloads `chosen` as soon as none of them is in use.
  // Errors: kUnavailable if that takes longer than swap_wait; kCancelled if
  // `wanted` is not wanted any more.
  absl::Status UnloadFor(Entry& wanted, const std::vector<Entry*>& chosen)
      ABSL_LOCKS_EXCLUDED(mu_);
  void StartUnload(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndLoad(Entry& entry, absl::StatusOr<std::unique_ptr<LoadedModel>> model)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Says that a load of the start waits because of `status`.
  void KeepWaiting(Entry& entry, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunUnload(Entry& entry) ABSL_LOCKS_EXCLUDED(mu_);
  // Tells the observer how a load has ended.
  void ReportLoad(const Entry& entry, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Errors: kCancelled if the entry's load is not needed any more.
  absl::Status CheckWanted(const Entry& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Passes the entry's progress, changed by `change`, to its watchers.
  void Report(Entry& entry, const std::function<void(LoadReport&)>& change)
      ABSL_LOCKS_EXCLUDED(mu_);
  void NotifyReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const WorkerOptions options_;
  const std::unique_ptr<ByteBudget> own_messages_;  // unless options have one
  ByteBudget* const messages_;
  ModelLoader loader_;      // its Load() is called under load_mu_
  absl::Mutex load_mu_;     // held during a load; never taken under mu_
  ProgressMark load_mark_;  // progress of the load that holds load_mu_
  SteadyMutex mu_;
  std::string loading_ ABSL_GUARDED_BY(mu_);  // model that loads or loaded last
  std::function<void(bool)> ready_listener_ ABSL_GUARDED_BY(mu_);
  int64_t starting_ ABSL_GUARDED_BY(mu_) = 0;  // loads of the start
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Duration keep_alive_ ABSL_GUARDED_BY(mu_);  // keep-alive of later loads
  size_t n_awaiting_ ABSL_GUARDED_BY(mu_) = 0;      // all entries' calls
  // Last: the threads in it use everything above.
  ModelTable models_ ABSL_GUARDED_BY(mu_);
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_REGISTRY_H_
