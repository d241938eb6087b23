// The models of a worker: what each one is, and what is known of it now.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_TABLE_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_TABLE_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/generation/served_model.h"
#include "services/host/task_thread.h"
#include "services/worker/models/eviction.h"
#include "services/worker/models/loaded_model.h"
#include "services/worker/models/model_info.h"
#include "services/worker/models/model_planner.h"
#include "services/worker/models/options.h"

namespace plimsoll::services {

// Hears how a load goes. Called from the load's thread, or from within
// ModelRegistry::Load(); must not block and not call the registry.
class LoadWatcher {
 public:
  virtual ~LoadWatcher() = default;
  virtual void OnProgress(const LoadReport& report) = 0;
  // Called once, last. After an OK the model is ready.
  virtual void OnLoadEnd(const absl::Status& status) = 0;
};

// Called once with a model, or with the error of its load.
using OnServed = std::function<void(absl::StatusOr<ServedModel>)>;

// A call that waited for a model, and its result.
struct ServedCall {
  OnServed then;
  absl::StatusOr<ServedModel> model;
};

// One model. The lock of its table guards it.
struct ModelEntry {
  ModelFlag flag;
  ModelState state = ModelState::kAbsent;
  std::unique_ptr<LoadedModel> model;  // not null if kReady or kDraining
  LoadReport progress;                 // while it loads
  std::vector<std::shared_ptr<LoadWatcher>> watchers;
  std::vector<std::function<void()>> unload_waiters;
  absl::Time load_began;
  bool is_start = false;  // the load of the start: retried
  std::string last_error;
  bool is_pinned = false;
  absl::Duration keep_alive = absl::InfiniteDuration();
  std::vector<OnServed> calls;  // calls that wait for the model
  // Its new calls wait, as it is to be unloaded for another model.
  bool gives_way = false;
  std::string swap_note;  // what was unloaded for it
  absl::Time swap_end;    // when that was gone
  TaskThread thread;      // for its loads and unloads, one after the other

  bool IsLoading() const;
  // True if it is ready and a call or a session uses it.
  bool IsInUse() const;
  // True if it is ready and nobody has used it for its keep_alive. A model that
  // is pinned, or that gives way, does not expire.
  bool IsExpired(absl::Time now) const;
  // How much of the weights its load has read, in percent; 0 before and after
  // a load.
  int LoadPercent() const;
  // Errors: kFailedPrecondition if it is not loaded; kUnavailable if it is
  // loading or draining.
  absl::StatusOr<LoadedModel::Use> Use() const;
  ModelInfo Describe() const;
  // Moves the calls that wait to the end of `answers`, each with its result:
  // the model if `status` is OK, else `status`.
  void TakeCalls(const absl::Status& status, QuotaBook* quotas,
                 std::vector<ServedCall>& answers);
};

// Entries are added and never removed, and their addresses do not change. Its
// owner has a lock for it.
class ModelTable {
 public:
  // All of them, by name.
  std::map<std::string, ModelEntry>& entries() { return entries_; }

  // An empty name means the only model.
  // Errors: kNotFound; kInvalidArgument for an empty name where there are
  // several.
  absl::StatusOr<ModelEntry*> Find(const std::string& name);

  // Errors: kFailedPrecondition if `models` lack one of the table, or have
  // another file or digest of it.
  absl::Status CheckKept(const std::vector<ModelFlag>& models) const;

  // True if a model is ready, or if there are none.
  bool IsReady() const;
  std::vector<ModelInfo> List() const;
  // Calls `visit` with every model in memory and its state, kReady or
  // kDraining, by name.
  void Visit(
      absl::FunctionRef<void(const LoadedModel&, ModelState)> visit) const;

  // The ready models, and which of them must stay.
  std::vector<EvictionCandidate> Candidates() const;
  // The bytes that loaded models hold on each of `n_devices` devices.
  ModelPlanner::BytesByDevice HeldBytes(size_t n_devices) const;

  // Pins these models and no others.
  void SetPinned(const std::vector<std::string>& names);
  // Gives models whose keep_alive is `old` another one.
  void ReplaceKeepAlive(absl::Duration old, absl::Duration keep_alive);

 private:
  std::map<std::string, ModelEntry> entries_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_TABLE_H_
