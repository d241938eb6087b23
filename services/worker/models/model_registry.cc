#include "services/worker/models/model_registry.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "services/generation/message_bytes.h"
#include "services/host/log.h"
#include "services/wire/errors.h"
#include "services/worker/models/runtime_monitor.h"
#include "services/worker/models/worker_observer.h"

namespace plimsoll::services {
namespace {

absl::Status Refused(absl::Status status, v1::ErrorReason reason,
                     const std::string& name,
                     std::optional<absl::Duration> retry_after) {
  return WithDetails(std::move(status),
                     {reason, {{"model", name}}, retry_after});
}

absl::Status NotReady(const std::string& name, absl::string_view what) {
  return Refused(
      absl::UnavailableError(absl::StrCat("model ", name, " ", what)),
      v1::ERROR_REASON_MODEL_NOT_READY, name, absl::Seconds(1));
}

// Bytes of a plan's region; 0 if it has none of that name.
int64_t BytesOf(const planner::MemoryPlan& plan, absl::string_view region) {
  const planner::Region* found = plan.FindRegion(region);
  return found == nullptr ? 0 : found->bytes;
}

// What a loaded model holds on the host of what its plans name.
int64_t PlannedResidentBytes(const LoadedModel& model) {
  int64_t bytes = 0;
  for (size_t i = 0; i < model.parts.size(); ++i) {
    if (!model.parts[i].is_on_host) continue;
    const worker::MemoryReport memory = model.engine->MemoryOf(i);
    const planner::MemoryPlan& plan = model.engine->parts()[i].plan;
    bytes += memory.allocated_bytes +
             std::min(memory.vocab_bytes, BytesOf(plan, "vocab")) +
             std::min(memory.table_bytes, BytesOf(plan, "tables"));
  }
  return bytes;
}

// What a device's own free bytes say of a part's plan; empty on the host.
std::string TakenNote(const LoadedModel& model, size_t i) {
  const worker::MemoryReport memory = model.engine->MemoryOf(i);
  if (!memory.device_taken_bytes.has_value()) return "";
  const planner::MemoryPlan& plan = model.engine->parts()[i].plan;
  return absl::StrCat("; the device has ", *memory.device_taken_bytes,
                      " bytes less, the plan is of ", plan.total_bytes, ", ",
                      BytesOf(plan, "runtime"), " of them the process's own");
}

// Where the layers of a model on several devices are, and what the devices say.
std::string PartsNote(const LoadedModel& model) {
  if (model.parts.size() == 1) return TakenNote(model, 0);
  std::string note;
  for (size_t i = 0; i < model.parts.size(); ++i) {
    const worker::EnginePart& part = model.engine->parts()[i];
    absl::StrAppend(&note, "; layers ", part.first_layer, "-",
                    part.first_layer + part.n_layers - 1, " on ",
                    model.parts[i].device_id, " in ", part.plan.total_bytes,
                    " bytes", TakenNote(model, i));
  }
  return note;
}

// The parts of a model in memory, with their devices and plans.
std::vector<PlannedPart> PartsOf(const LoadedModel& model) {
  std::vector<PlannedPart> parts;
  for (size_t i = 0; i < model.parts.size(); ++i) {
    const worker::EnginePart& part = model.engine->parts()[i];
    parts.push_back(
        {model.parts[i].device_id, part.first_layer, part.n_layers, part.plan});
  }
  return parts;
}

// How fast the weights came; empty where that took no time.
std::string RateNote(const LoadedModel& model) {
  const double seconds = absl::ToDoubleSeconds(model.weight_time);
  if (seconds <= 0) return "";
  return absl::StrFormat(
      "; weights read at %.1f GB/s",
      static_cast<double>(model.weight_bytes) / seconds / 1e9);
}

bool IsLoading(ModelState state) {
  return state == ModelState::kReserving || state == ModelState::kLoading;
}

// Whether a load at the start is tried again after this error: a planner may
// have the memory later.
bool IsWaitedFor(const absl::Status& status, bool has_planner) {
  return absl::IsUnavailable(status) ||
         (has_planner &&
          DetailsOf(status).reason == v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED);
}

}  // namespace

ModelRegistry::ModelRegistry(WorkerOptions options, PlannerClient* client,
                             LeaseKeeper* keeper)
    : options_(std::move(options)),
      own_messages_(options_.messages != nullptr
                        ? nullptr
                        : std::make_unique<ByteBudget>(kMessageBytes)),
      messages_(options_.messages != nullptr ? options_.messages
                                             : own_messages_.get()),
      loader_(options_, client, keeper) {
  absl::MutexLock lock(&mu_);
  for (const ModelFlag& flag : options_.models) {
    entries_[flag.name].flag = flag;
  }
}

ModelRegistry::~ModelRegistry() { UnloadAll(); }

void ModelRegistry::SetReadyListener(std::function<void(bool)> listener) {
  absl::MutexLock lock(&mu_);
  ready_listener_ = std::move(listener);
  NotifyReady();
}

void ModelRegistry::NotifyReady() {
  if (ready_listener_ == nullptr) return;
  bool is_ready = options_.lazy || entries_.empty();
  for (const auto& [name, entry] : entries_) {
    is_ready |= entry.state == ModelState::kReady;
  }
  ready_listener_(is_ready && starting_ == 0 && !is_stopping_);
}

void ModelRegistry::LoadAtStart() {
  absl::MutexLock lock(&mu_);
  if (options_.lazy) return;
  for (auto& [name, entry] : entries_) {
    if (entry.state != ModelState::kAbsent) continue;
    entry.is_start = true;
    ++starting_;
    StartLoad(entry, options_.load);
  }
  NotifyReady();
}

absl::StatusOr<ModelRegistry::Entry*> ModelRegistry::Find(
    const std::string& name) {
  if (name.empty() && entries_.size() == 1) return &entries_.begin()->second;
  if (name.empty()) {
    return absl::InvalidArgumentError(
        "model must be named: this worker has not exactly one");
  }
  const auto found = entries_.find(name);
  if (found != entries_.end()) return &found->second;
  const std::string names = absl::StrJoin(
      entries_, ", ",
      [](std::string* out, const auto& entry) { out->append(entry.first); });
  return Refused(absl::NotFoundError(
                     absl::StrCat("no such model; this worker has: ", names)),
                 v1::ERROR_REASON_MODEL_NOT_FOUND, name, std::nullopt);
}

absl::StatusOr<LoadedModel::Use> ModelRegistry::Use(const std::string& name) {
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(Entry * entry, Find(name));
  if (entry->state == ModelState::kReady) return entry->model->Enter();
  if (IsLoading(entry->state)) return NotReady(entry->flag.name, "is loading");
  if (entry->state == ModelState::kDraining) {
    return NotReady(entry->flag.name, "is being unloaded");
  }
  return Refused(absl::FailedPreconditionError(absl::StrCat(
                     "model ", entry->flag.name, " is not loaded",
                     entry->last_error.empty() ? "" : ": ", entry->last_error)),
                 v1::ERROR_REASON_MODEL_NOT_LOADED, entry->flag.name,
                 std::nullopt);
}

absl::StatusOr<ServedModel> ModelRegistry::Serve(const std::string& name) {
  ASSIGN_OR_RETURN(LoadedModel::Use use, Use(name));
  const LoadedModel& model = *use;
  return ServedModel{model.name, model.engine.get(), model.chat_format,
                     model.own_template,
                     std::make_shared<LoadedModel::Use>(std::move(use))};
}

absl::Status ModelRegistry::Load(const std::string& name,
                                 const planner::LoadOptions& options,
                                 std::shared_ptr<LoadWatcher> watcher) {
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(Entry * entry, Find(name));
  if (is_stopping_ || entry->state == ModelState::kDraining) {
    return NotReady(entry->flag.name, "is being unloaded");
  }
  if (entry->state == ModelState::kReady) {
    watcher->OnProgress({.state = entry->state,
                         .parts = services::PartsOf(*entry->model),
                         .model = Describe(*entry)});
    watcher->OnLoadEnd(absl::OkStatus());
    return absl::OkStatus();
  }
  if (IsLoading(entry->state)) {
    if (!entry->unload_waiters.empty()) {
      return NotReady(entry->flag.name, "is being unloaded");
    }
    watcher->OnProgress(entry->progress);
    entry->watchers.push_back(std::move(watcher));
    return absl::OkStatus();
  }
  entry->watchers.push_back(std::move(watcher));
  StartLoad(*entry, options);
  return absl::OkStatus();
}

void ModelRegistry::StartLoad(Entry& entry,
                              const planner::LoadOptions& options) {
  entry.state = ModelState::kReserving;
  entry.last_error.clear();
  entry.progress = {.state = entry.state};
  entry.load_began = options_.clock();
  entry.thread.Run([this, &entry, options] { RunLoad(entry, options); });
}

absl::Status ModelRegistry::CheckWanted(const Entry& entry) {
  absl::MutexLock lock(&mu_);
  if (entry.unload_waiters.empty() && !is_stopping_) return absl::OkStatus();
  return absl::CancelledError("the load was ended by an unload");
}

void ModelRegistry::RunLoad(Entry& entry, const planner::LoadOptions& options) {
  while (true) {
    absl::StatusOr<std::unique_ptr<LoadedModel>> model =
        TryLoad(entry, options);
    const bool is_retried =
        entry.is_start &&
        IsWaitedFor(model.status(), !options_.planner.empty());
    if (!is_retried) return EndLoad(entry, std::move(model));
    absl::MutexLock lock(&mu_);
    if (entry.last_error.empty()) {
      Log(LogLevel::kWarning, "a load waits",
          {{"model", entry.flag.name},
           {"error", WithoutSecrets(model.status().message())}});
    }
    entry.last_error = WithoutSecrets(model.status().message());
    const auto unwanted = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return is_stopping_ || !entry.unload_waiters.empty();
    };
    mu_.AwaitWithTimeout(absl::Condition(&unwanted), kStartRetry);
  }
}

absl::StatusOr<std::unique_ptr<LoadedModel>> ModelRegistry::TryLoad(
    Entry& entry, const planner::LoadOptions& options) {
  absl::MutexLock load_lock(&load_mu_);
  RETURN_IF_ERROR(CheckWanted(entry));
  const LoadHooks hooks = {
      .on_plan =
          [&](const std::vector<planner::SplitPart>& parts) {
            Report(entry, [&](LoadReport& progress) {
              progress.state = ModelState::kLoading;
              progress.parts = PartsOf(parts);
            });
          },
      .on_progress =
          [&](const worker::LoadProgress& at) {
            Report(entry, [&at](LoadReport& progress) {
              // The other phases count the arena, not weights.
              if (at.phase == "weights") {
                progress.bytes_done = at.bytes_done;
                progress.bytes_total = at.bytes_total;
              } else if (at.phase == "ready") {
                progress.bytes_done = progress.bytes_total.value_or(0);
              }
            });
            return CheckWanted(entry);
          }};
  RuntimeMonitor* const runtime = options_.runtime;
  if (runtime != nullptr) runtime->BeginChange();
  auto model = loader_.Load(entry.flag, options, HeldBytes(), hooks);
  if (runtime != nullptr) {
    runtime->EndChange(model.ok() ? PlannedResidentBytes(**model) : 0);
  }
  return model;
}

void ModelRegistry::Report(Entry& entry,
                           const std::function<void(LoadReport&)>& change) {
  absl::MutexLock lock(&mu_);
  change(entry.progress);
  entry.state = entry.progress.state;
  for (const auto& watcher : entry.watchers) {
    watcher->OnProgress(entry.progress);
  }
}

ModelPlanner::BytesByDevice ModelRegistry::HeldBytes() {
  absl::MutexLock lock(&mu_);
  ModelPlanner::BytesByDevice bytes(options_.devices.size(), 0);
  for (const auto& [name, entry] : entries_) {
    if (entry.model == nullptr) continue;
    for (size_t i = 0; i < entry.model->parts.size(); ++i) {
      bytes[entry.model->parts[i].device] +=
          entry.model->engine->parts()[i].plan.total_bytes;
    }
  }
  return bytes;
}

void ModelRegistry::EndLoad(
    Entry& entry, absl::StatusOr<std::unique_ptr<LoadedModel>> model) {
  const absl::Status status = model.status();
  absl::MutexLock lock(&mu_);
  if (entry.is_start) --starting_;
  entry.is_start = false;
  std::vector<std::shared_ptr<LoadWatcher>> watchers;
  watchers.swap(entry.watchers);
  entry.progress = {};
  if (status.ok()) {
    entry.model = *std::move(model);
    entry.state = ModelState::kReady;
    entry.last_error.clear();
    const LoadReport last = {.state = entry.state, .model = Describe(entry)};
    for (const auto& watcher : watchers) watcher->OnProgress(last);
  } else {
    entry.state = ModelState::kAbsent;
    entry.last_error = WithoutSecrets(status.message());
  }
  ReportLoad(entry, status);
  for (const auto& watcher : watchers) watcher->OnLoadEnd(status);
  NotifyReady();
  if (entry.unload_waiters.empty() && !is_stopping_) return;
  if (entry.state == ModelState::kReady) {  // it was too late to end it
    entry.state = ModelState::kDraining;
    entry.thread.Run([this, &entry] { RunUnload(entry); });
    return;
  }
  for (const auto& done : entry.unload_waiters) done();
  entry.unload_waiters.clear();
}

void ModelRegistry::ReportLoad(const Entry& entry, const absl::Status& status) {
  if (options_.observer == nullptr) return;
  LoadRecord record{.model = entry.flag.name,
                    .status = status,
                    .time = options_.clock() - entry.load_began};
  if (status.ok()) {
    const LoadedModel& model = *entry.model;
    record.total_bytes = model.total_bytes();
    record.note = absl::StrCat(model.engine->plan().n_ctx_reason,
                               RateNote(model), PartsNote(model));
  }
  options_.observer->OnLoadEnd(record);
}

absl::Status ModelRegistry::Unload(const std::string& name,
                                   std::function<void()> done) {
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(Entry * entry, Find(name));
  if (entry->state == ModelState::kAbsent) {
    done();
    return absl::OkStatus();
  }
  entry->unload_waiters.push_back(std::move(done));
  if (entry->state != ModelState::kReady) return absl::OkStatus();
  entry->state = ModelState::kDraining;
  NotifyReady();
  entry->thread.Run([this, entry] { RunUnload(*entry); });
  return absl::OkStatus();
}

void ModelRegistry::RunUnload(Entry& entry) {
  LoadedModel* model = nullptr;
  {
    absl::MutexLock lock(&mu_);
    model = entry.model.get();
  }
  model->engine->Drain();
  if (!model->AwaitUnused(options_.drain_timeout)) {
    model->engine->AbortAll(
        absl::UnavailableError("the model is being unloaded"));
    model->AwaitUnused(absl::InfiniteDuration());
  }
  const std::vector<LoadedModel::Part> parts = model->parts;
  for (const LoadedModel::Part& part : parts) {
    if (part.lease.has_value()) loader_.Retire(*part.lease);
  }
  std::unique_ptr<LoadedModel> owned;
  {
    absl::MutexLock lock(&mu_);
    owned = std::move(entry.model);
  }
  RuntimeMonitor* const runtime = options_.runtime;
  if (runtime != nullptr) runtime->BeginChange();
  const int64_t planned_bytes = PlannedResidentBytes(*owned);
  owned.reset();  // the memory first, then the leases
  if (runtime != nullptr) runtime->EndChange(-planned_bytes);
  for (const LoadedModel::Part& part : parts) {
    if (part.lease.has_value()) loader_.Release(*part.lease);
  }
  absl::MutexLock lock(&mu_);
  entry.state = ModelState::kAbsent;
  if (options_.observer != nullptr) {
    options_.observer->OnUnload(entry.flag.name);
  }
  for (const auto& done : entry.unload_waiters) done();
  entry.unload_waiters.clear();
}

std::vector<PlannedPart> ModelRegistry::PartsOf(
    const std::vector<planner::SplitPart>& parts) const {
  std::vector<PlannedPart> result;
  result.reserve(parts.size());
  for (const planner::SplitPart& part : parts) {
    result.push_back({options_.devices[static_cast<size_t>(part.device)].id,
                      part.first_layer, part.n_layers, part.plan});
  }
  return result;
}

ModelInfo ModelRegistry::Describe(const Entry& entry) const {
  ModelInfo info = {.name = entry.flag.name,
                    .state = entry.state,
                    .last_error = entry.last_error};
  if (entry.model == nullptr) return info;
  const LoadedModel& model = *entry.model;
  ReadyModel& ready = info.ready.emplace();
  ready.architecture = model.architecture;
  ready.display_name = model.display_name;
  ready.n_ctx = model.engine->n_ctx();
  ready.n_ctx_train = model.n_ctx_train;
  ready.weight_bytes = model.weight_bytes;
  if (model.chat_format.ok()) {
    ready.chat_format =
        std::string(worker::ChatFormatName(model.chat_format->format));
  } else if (model.own_template != nullptr) {
    ready.chat_format = std::string(worker::kTemplateFormat);
  }
  for (size_t i = 0; i < model.parts.size(); ++i) {
    const worker::EnginePart& part = model.engine->parts()[i];
    ready.parts.push_back({model.parts[i].device_id, part.first_layer,
                           part.n_layers, part.plan.total_bytes,
                           model.parts[i].is_on_host});
  }
  ready.load = model.engine->CurrentLoad();
  return info;
}

std::vector<ModelInfo> ModelRegistry::List() {
  absl::MutexLock lock(&mu_);
  std::vector<ModelInfo> models;
  for (const auto& [name, entry] : entries_) models.push_back(Describe(entry));
  return models;
}

void ModelRegistry::Visit(
    absl::FunctionRef<void(const LoadedModel&, ModelState)> visit) {
  absl::MutexLock lock(&mu_);
  for (const auto& [name, entry] : entries_) {
    if (entry.model != nullptr) visit(*entry.model, entry.state);
  }
}

void ModelRegistry::AbortAll() {
  AbortAll(WithDetails(absl::UnavailableError("this server is shutting down"),
                       {v1::ERROR_REASON_DRAINING, {}, absl::ZeroDuration()}));
}

void ModelRegistry::AbortAll(const absl::Status& status) {
  Visit([&status](const LoadedModel& model, ModelState) {
    model.engine->AbortAll(status);
  });
}

absl::Duration ModelRegistry::LongestStep() {
  absl::Duration longest = absl::ZeroDuration();
  Visit([&longest](const LoadedModel& model, ModelState) {
    longest = std::max(longest, model.engine->StepAge());
  });
  return longest;
}

void ModelRegistry::UnloadAll() {
  absl::MutexLock lock(&mu_);
  is_stopping_ = true;
  NotifyReady();
  for (auto& [name, entry] : entries_) {
    if (entry.state == ModelState::kReady) {
      entry.state = ModelState::kDraining;
      entry.thread.Run([this, &entry = entry] { RunUnload(entry); });
    }
    const auto absent = [&entry = entry]() {
      return entry.state == ModelState::kAbsent;
    };
    mu_.Await(absl::Condition(&absent));
  }
}

}  // namespace plimsoll::services
