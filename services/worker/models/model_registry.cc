#include "services/worker/models/model_registry.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/generation/message_bytes.h"
#include "services/host/log.h"
#include "services/host/memory_guard.h"
#include "services/host/random_id.h"
#include "services/host/request_scope.h"
#include "services/tracing/tracer.h"
#include "services/wire/errors.h"
#include "services/worker/models/eviction.h"
#include "services/worker/models/model_description.h"
#include "services/worker/models/model_errors.h"
#include "services/worker/models/runtime_monitor.h"
#include "services/worker/models/worker_observer.h"

namespace plimsoll::services {
namespace {

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
      loader_(options_, client, keeper),
      load_mark_(options_.clock) {
  SteadyMutexLock lock(&mu_);
  keep_alive_ = options_.keep_alive;
  for (const ModelFlag& flag : options_.models) {
    Entry& entry = models_.entries()[flag.name];
    entry.flag = flag;
    entry.is_pinned = options_.IsPinned(flag.name);
  }
}

ModelRegistry::~ModelRegistry() { UnloadAll(); }

void ModelRegistry::SetReadyListener(std::function<void(bool)> listener) {
  SteadyMutexLock lock(&mu_);
  ready_listener_ = std::move(listener);
  NotifyReady();
}

void ModelRegistry::NotifyReady() {
  if (ready_listener_ == nullptr) return;
  const bool is_ready =
      options_.lazy || options_.on_demand || models_.IsReady();
  ready_listener_(is_ready && starting_ == 0 && !is_stopping_);
}

void ModelRegistry::LoadAtStart() {
  SteadyMutexLock lock(&mu_);
  if (options_.lazy) return;
  for (auto& [name, entry] : models_.entries()) {
    const bool is_wanted = entry.is_pinned || !options_.on_demand;
    if (entry.state != ModelState::kAbsent || !is_wanted) continue;
    entry.is_start = true;
    ++starting_;
    StartLoad(entry, options_.load, IfFull::kMakeRoom);
  }
  NotifyReady();
}

absl::StatusOr<LoadedModel::Use> ModelRegistry::Use(const std::string& name) {
  SteadyMutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const Entry* entry, models_.Find(name));
  return entry->Use();
}

absl::StatusOr<ServedModel> ModelRegistry::Serve(const std::string& name) {
  ASSIGN_OR_RETURN(LoadedModel::Use use, Use(name));
  return Served(std::move(use), options_.quotas);
}

absl::StatusOr<std::optional<ServedModel>> ModelRegistry::ServeOrLoad(
    const std::string& name, OnServed then) {
  SteadyMutexLock lock(&mu_);
  ASSIGN_OR_RETURN(Entry * entry, models_.Find(name));
  const bool is_ready = entry->state == ModelState::kReady && !entry->gives_way;
  if (is_ready || !options_.on_demand) {
    ASSIGN_OR_RETURN(LoadedModel::Use use, entry->Use());
    return Served(std::move(use), options_.quotas);
  }
  if (is_stopping_) return NotReady(entry->flag.name, "is being unloaded");
  if (entry->is_start && !entry->last_error.empty()) {
    return NotReady(entry->flag.name,
                    absl::StrCat("waits for memory: ", entry->last_error));
  }
  if (n_awaiting_ == kMaxAwaiting) {
    return TooManyAwaiting(entry->flag.name, kMaxAwaiting);
  }
  entry->calls.reserve(entry->calls.size() + 1);
  if (entry->state == ModelState::kAbsent) {
    StartLoad(*entry, options_.load, IfFull::kMakeRoom);
  }
  entry->calls.push_back(std::move(then));
  ++n_awaiting_;
  return std::nullopt;
}

void ModelRegistry::Give(std::vector<ServedCall> answers) {
  for (ServedCall& answer : answers) answer.then(std::move(answer.model));
  SteadyMutexLock lock(&mu_);
  n_awaiting_ -= answers.size();
}

int ModelRegistry::LoadPercent(const std::string& name) {
  SteadyMutexLock lock(&mu_);
  const absl::StatusOr<Entry*> entry = models_.Find(name);
  return entry.ok() ? (*entry)->LoadPercent() : 0;
}

absl::Status ModelRegistry::Load(const std::string& name,
                                 const planner::LoadOptions& options,
                                 std::shared_ptr<LoadWatcher> watcher,
                                 IfFull if_full) {
  SteadyMutexLock lock(&mu_);
  ASSIGN_OR_RETURN(Entry * entry, models_.Find(name));
  if (is_stopping_ || entry->state == ModelState::kDraining) {
    return NotReady(entry->flag.name, "is being unloaded");
  }
  if (entry->state == ModelState::kReady) {
    watcher->OnProgress({.state = entry->state,
                         .parts = PlannedPartsOf(*entry->model),
                         .model = entry->Describe()});
    watcher->OnLoadEnd(absl::OkStatus());
    return absl::OkStatus();
  }
  if (entry->IsLoading()) {
    if (!entry->unload_waiters.empty()) {
      return NotReady(entry->flag.name, "is being unloaded");
    }
    entry->watchers.reserve(entry->watchers.size() + 1);
    watcher->OnProgress(entry->progress);
    entry->watchers.push_back(std::move(watcher));
    return absl::OkStatus();
  }
  entry->watchers.reserve(entry->watchers.size() + 1);
  StartLoad(*entry, options, if_full);
  entry->watchers.push_back(std::move(watcher));
  return absl::OkStatus();
}

void ModelRegistry::StartLoad(Entry& entry, const planner::LoadOptions& options,
                              IfFull if_full) {
  entry.thread.Run([this, &entry, options, if_full, trace = CurrentTrace::Get(),
                    request_id = RequestScope::Id()] {
    const CurrentTrace current(trace);
    // A load that no request asked for gets an id of its own.
    const RequestScope scope(request_id.empty() ? RandomId() : request_id);
    RunLoad(entry, options, if_full);
  });
  // The load waits for the lock. Nothing below allocates, so that a model for
  // whose load there was no memory stays absent.
  entry.state = ModelState::kReserving;
  entry.last_error.clear();
  entry.swap_note.clear();
  entry.swap_end = absl::InfinitePast();
  entry.keep_alive = keep_alive_;
  entry.progress = {.state = entry.state};
  entry.load_began = options_.clock();
}

absl::Status ModelRegistry::CheckWanted(const Entry& entry) {
  if (entry.unload_waiters.empty() && !is_stopping_) return absl::OkStatus();
  return absl::CancelledError("the load was ended by an unload");
}

void ModelRegistry::RunLoad(Entry& entry, const planner::LoadOptions& options,
                            IfFull if_full) {
  while (true) {
    absl::StatusOr<std::unique_ptr<LoadedModel>> model =
        TraceLoad(entry, options, if_full);
    const absl::Status status = model.status();
    const bool is_retried =
        entry.is_start && IsWaitedFor(status, !options_.planner.empty());
    std::vector<ServedCall> answers;
    {
      SteadyMutexLock lock(&mu_);
      if (is_retried) {
        KeepWaiting(entry, status);
      } else {
        EndLoad(entry, std::move(model));
      }
      entry.TakeCalls(status, options_.quotas, answers);
    }
    Give(std::move(answers));
    if (!is_retried) return;
    const auto unwanted = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return is_stopping_ || !entry.unload_waiters.empty();
    };
    SteadyMutexLock lock(&mu_);
    mu_.AwaitFor(absl::Condition(&unwanted), kStartRetry);
  }
}

void ModelRegistry::KeepWaiting(Entry& entry, const absl::Status& status) {
  const std::string error = WithoutSecrets(status.message());
  if (entry.last_error.empty()) {
    Log(LogLevel::kWarning, "a load waits",
        {{"model", entry.flag.name}, {"error", error}});
  }
  entry.last_error = error;
}

absl::StatusOr<std::unique_ptr<LoadedModel>> ModelRegistry::TraceLoad(
    Entry& entry, const planner::LoadOptions& options, IfFull if_full) {
  OpenSpan span("load", SpanKind::kInternal, CurrentTrace::Get());
  span.Set("plimsoll.model", entry.flag.name);
  const CurrentTrace current(span.context());
  absl::StatusOr<std::unique_ptr<LoadedModel>> model =
      TryLoad(entry, options, if_full);
  if (model.ok()) span.Set("plimsoll.plan_bytes", (*model)->total_bytes());
  span.End(model.status().code());
  return model;
}

absl::StatusOr<std::unique_ptr<LoadedModel>> ModelRegistry::TryLoad(
    Entry& entry, const planner::LoadOptions& options, IfFull if_full) {
  absl::MutexLock load_lock(&load_mu_);
  {
    SteadyMutexLock lock(&mu_);
    RETURN_IF_ERROR(CheckWanted(entry));
    loading_ = entry.flag.name;
  }
  const LoadHooks hooks = HooksOf(entry, if_full);
  RuntimeMonitor* const runtime = options_.runtime;
  if (runtime != nullptr) runtime->BeginChange();
  load_mark_.Begin();
  auto model =
      WithinMemory([&] { return loader_.Load(entry.flag, options, hooks); });
  load_mark_.Stop();
  if (runtime != nullptr) {
    runtime->EndChange(model.ok() ? PlannedResidentBytes(**model) : 0);
  }
  return model;
}

LoadHooks ModelRegistry::HooksOf(Entry& entry, IfFull if_full) {
  LoadHooks hooks = {
      .on_plan =
          [this, &entry](const std::vector<planner::SplitPart>& parts) {
            load_mark_.Touch();
            Report(entry, [&](LoadReport& progress) {
              progress.state = ModelState::kLoading;
              progress.parts = PlannedPartsOf(parts, options_.devices);
            });
          },
      .on_progress =
          [this, &entry](const worker::LoadProgress& at) {
            load_mark_.Touch();
            Report(entry, [&at](LoadReport& progress) {
              // The other phases count the arena, not weights.
              if (at.phase == "weights") {
                progress.bytes_done = at.bytes_done;
                progress.bytes_total = at.bytes_total;
              } else if (at.phase == "ready") {
                progress.bytes_done = progress.bytes_total.value_or(0);
              }
            });
            SteadyMutexLock lock(&mu_);
            return CheckWanted(entry);
          },
      .held =
          [this] {
            SteadyMutexLock lock(&mu_);
            return models_.HeldBytes(options_.devices.size());
          }};
  if (options_.on_demand) {
    hooks.make_room = [this, &entry, if_full](const absl::Status& refusal) {
      load_mark_.Stop();
      absl::Status status = MakeRoom(entry, if_full, refusal);
      load_mark_.Begin();
      return status;
    };
  }
  return hooks;
}

absl::Status ModelRegistry::MakeRoom(Entry& wanted, IfFull if_full,
                                     const absl::Status& refusal) {
  std::vector<Entry*> chosen;
  {
    SteadyMutexLock lock(&mu_);
    if (if_full == IfFull::kRefuse && wanted.calls.empty()) return refusal;
    const auto names = ChooseEvicted(models_.Candidates(), refusal);
    if (!names.ok()) return AwaitFreedMemory(wanted, names.status());
    for (const std::string& name : *names) {
      chosen.push_back(&models_.entries().at(name));
      chosen.back()->gives_way = true;
    }
  }
  absl::Status status = UnloadFor(wanted, chosen);
  std::vector<ServedCall> answers;
  {
    SteadyMutexLock lock(&mu_);
    for (Entry* entry : chosen) {
      entry->gives_way = false;
      if (entry->state != ModelState::kReady) continue;
      entry->TakeCalls(absl::OkStatus(), options_.quotas, answers);
    }
  }
  Give(std::move(answers));
  return status;
}

absl::Status ModelRegistry::AwaitFreedMemory(const Entry& wanted,
                                             const absl::Status& refusal) {
  if (options_.clock() - wanted.swap_end > kFreedMemoryTime) return refusal;
  mu_.AwaitFor(absl::Condition(&is_stopping_), kIdlePoll);
  return CheckWanted(wanted);
}

absl::Status ModelRegistry::UnloadFor(Entry& wanted,
                                      const std::vector<Entry*>& chosen) {
  const absl::Time end = options_.clock() + options_.swap_wait;
  SteadyMutexLock lock(&mu_);
  while (true) {
    RETURN_IF_ERROR(CheckWanted(wanted));
    const auto busy =
        std::find_if(chosen.begin(), chosen.end(),
                     [](const Entry* entry) { return entry->IsInUse(); });
    if (busy == chosen.end()) break;
    if (options_.clock() >= end) {
      return StillInUse(wanted.flag.name, (*busy)->flag.name,
                        options_.swap_wait);
    }
    mu_.AwaitFor(absl::Condition(&is_stopping_), kIdlePoll);
  }
  for (Entry* entry : chosen) {
    if (entry->state != ModelState::kReady) continue;
    absl::StrAppend(&wanted.swap_note, "; ", entry->flag.name, " with ",
                    entry->model->total_bytes(), " bytes was unloaded for it");
    StartUnload(*entry);
  }
  const auto are_gone = [&chosen] {
    return std::none_of(chosen.begin(), chosen.end(), [](const Entry* entry) {
      return entry->state == ModelState::kReady ||
             entry->state == ModelState::kDraining;
    });
  };
  mu_.Await(absl::Condition(&are_gone));
  wanted.swap_end = options_.clock();
  return absl::OkStatus();
}

void ModelRegistry::Report(Entry& entry,
                           const std::function<void(LoadReport&)>& change) {
  SteadyMutexLock lock(&mu_);
  change(entry.progress);
  entry.state = entry.progress.state;
  for (const auto& watcher : entry.watchers) {
    watcher->OnProgress(entry.progress);
  }
}

void ModelRegistry::EndLoad(
    Entry& entry, absl::StatusOr<std::unique_ptr<LoadedModel>> model) {
  const absl::Status status = model.status();
  if (entry.is_start) --starting_;
  entry.is_start = false;
  std::vector<std::shared_ptr<LoadWatcher>> watchers;
  watchers.swap(entry.watchers);
  entry.progress = {};
  if (status.ok()) {
    entry.model = *std::move(model);
    entry.state = ModelState::kReady;
    entry.last_error.clear();
    const LoadReport last = {.state = entry.state, .model = entry.Describe()};
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
    StartUnload(entry);
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
    record.note = absl::StrCat(LoadNote(model), entry.swap_note);
  }
  options_.observer->OnLoadEnd(record);
}

absl::Status ModelRegistry::Unload(const std::string& name,
                                   std::function<void()> done) {
  SteadyMutexLock lock(&mu_);
  ASSIGN_OR_RETURN(Entry * entry, models_.Find(name));
  if (entry->state == ModelState::kAbsent) {
    done();
    return absl::OkStatus();
  }
  entry->unload_waiters.reserve(entry->unload_waiters.size() + 1);
  if (entry->state == ModelState::kReady) StartUnload(*entry);
  entry->unload_waiters.push_back(std::move(done));
  return absl::OkStatus();
}

void ModelRegistry::StartUnload(Entry& entry) {
  entry.thread.Run([this, &entry, request_id = RequestScope::Id()] {
    const RequestScope scope(request_id);
    RunUnload(entry);
  });
  entry.state = ModelState::kDraining;  // before the thread gets the lock
  NotifyReady();
}

void ModelRegistry::RunUnload(Entry& entry) {
  LoadedModel* model = nullptr;
  {
    SteadyMutexLock lock(&mu_);
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
    SteadyMutexLock lock(&mu_);
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
  std::vector<ServedCall> answers;
  {
    SteadyMutexLock lock(&mu_);
    entry.state = ModelState::kAbsent;
    if (options_.observer != nullptr) {
      options_.observer->OnUnload(entry.flag.name);
    }
    for (const auto& done : entry.unload_waiters) done();
    entry.unload_waiters.clear();
    if (is_stopping_) {
      entry.TakeCalls(ShuttingDown(), options_.quotas, answers);
    } else if (!entry.calls.empty()) {
      StartLoad(entry, options_.load, IfFull::kMakeRoom);
    }
  }
  Give(std::move(answers));
}

void ModelRegistry::UnloadExpired() {
  SteadyMutexLock lock(&mu_);
  for (auto& [name, entry] : models_.entries()) {
    if (entry.IsExpired(options_.clock())) StartUnload(entry);
  }
}

absl::Status ModelRegistry::AddModels(const std::vector<ModelFlag>& models) {
  SteadyMutexLock lock(&mu_);
  if (is_stopping_) return ShuttingDown();
  if (!options_.on_demand && !options_.lazy) {
    return absl::FailedPreconditionError(
        "models are loaded at the start without --on-demand or --lazy, so that "
        "others need a restart");
  }
  RETURN_IF_ERROR(models_.CheckKept(models));
  for (const ModelFlag& flag : models) {
    const auto [place, is_new] = models_.entries().try_emplace(flag.name);
    if (!is_new) continue;
    place->second.flag = flag;
    if (options_.observer != nullptr)
      options_.observer->OnModelAdded(flag.name);
  }
  return absl::OkStatus();
}

absl::Status ModelRegistry::SetKeepAlive(const std::string& name,
                                         absl::Duration keep_alive) {
  SteadyMutexLock lock(&mu_);
  ASSIGN_OR_RETURN(Entry * entry, models_.Find(name));
  entry->keep_alive = keep_alive;
  return absl::OkStatus();
}

void ModelRegistry::SetDefaultKeepAlive(absl::Duration keep_alive) {
  SteadyMutexLock lock(&mu_);
  models_.ReplaceKeepAlive(keep_alive_, keep_alive);
  keep_alive_ = keep_alive;
}

void ModelRegistry::SetPinned(const std::vector<std::string>& names) {
  SteadyMutexLock lock(&mu_);
  models_.SetPinned(names);
}

std::vector<ModelInfo> ModelRegistry::List() {
  SteadyMutexLock lock(&mu_);
  return models_.List();
}

void ModelRegistry::Visit(
    absl::FunctionRef<void(const LoadedModel&, ModelState)> visit) {
  SteadyMutexLock lock(&mu_);
  models_.Visit(visit);
}

void ModelRegistry::AbortAll() { AbortAll(ShuttingDown()); }

void ModelRegistry::AbortAll(const absl::Status& status) {
  std::vector<ServedCall> answers;
  {
    SteadyMutexLock lock(&mu_);
    for (auto& [name, entry] : models_.entries()) {
      entry.TakeCalls(status, options_.quotas, answers);
    }
  }
  Give(std::move(answers));
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

Stall ModelRegistry::LongestStall() {
  Stall longest;
  Visit([&longest](const LoadedModel& model, ModelState) {
    const absl::Duration time = model.engine->StallTime();
    if (time <= longest.time) return;
    longest = {time, absl::StrCat("a step of model ", model.name)};
  });
  const absl::Duration time = load_mark_.StallTime();
  if (time <= longest.time) return longest;
  SteadyMutexLock lock(&mu_);
  return {time, absl::StrCat("the load of model ", loading_)};
}

void ModelRegistry::UnloadAll() {
  SteadyMutexLock lock(&mu_);
  is_stopping_ = true;
  NotifyReady();
  for (auto& [name, entry] : models_.entries()) {
    if (entry.state == ModelState::kReady) StartUnload(entry);
    const auto absent = [&entry = entry]() {
      return entry.state == ModelState::kAbsent;
    };
    mu_.Await(absl::Condition(&absent));
  }
  const auto all_answered = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return n_awaiting_ == 0;
  };
  mu_.Await(absl::Condition(&all_answered));
}

}  // namespace plimsoll::services
