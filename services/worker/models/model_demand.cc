// The part of the registry that loads models for calls, and unloads others.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/worker/models/eviction.h"
#include "services/worker/models/model_description.h"
#include "services/worker/models/model_errors.h"
#include "services/worker/models/model_registry.h"
#include "services/worker/models/worker_observer.h"

namespace plimsoll::services {

absl::StatusOr<std::optional<ServedModel>> ModelRegistry::ServeOrLoad(
    const std::string& name, OnServed then) {
  SteadyMutexLock lock(&mu_);
  ASSIGN_OR_RETURN(Entry * entry, Find(name));
  const bool is_ready = entry->state == ModelState::kReady && !entry->gives_way;
  if (is_ready || !options_.on_demand) {
    ASSIGN_OR_RETURN(LoadedModel::Use use, UseOf(*entry));
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

int ModelRegistry::LoadPercent(const std::string& name) {
  SteadyMutexLock lock(&mu_);
  const absl::StatusOr<Entry*> entry = Find(name);
  if (!entry.ok()) return 0;
  const LoadReport& progress = (*entry)->progress;
  const int64_t total = progress.bytes_total.value_or(0);
  if (total <= 0) return 0;
  const int64_t done =
      std::clamp<int64_t>(progress.bytes_done.value_or(0), 0, total);
  return static_cast<int>(static_cast<double>(done) * 100 /
                          static_cast<double>(total));
}

void ModelRegistry::TakeCalls(Entry& entry, const absl::Status& status,
                              std::vector<Answer>& answers) {
  for (OnServed& then : std::exchange(entry.calls, {})) {
    absl::StatusOr<LoadedModel::Use> use =
        status.ok() ? UseOf(entry) : absl::StatusOr<LoadedModel::Use>(status);
    if (use.ok()) {
      answers.push_back(
          {std::move(then), Served(*std::move(use), options_.quotas)});
    } else {
      answers.push_back({std::move(then), use.status()});
    }
  }
}

void ModelRegistry::Give(std::vector<Answer> answers) {
  for (Answer& answer : answers) answer.then(std::move(answer.model));
  SteadyMutexLock lock(&mu_);
  n_awaiting_ -= answers.size();
}

std::vector<EvictionCandidate> ModelRegistry::Candidates() const {
  std::vector<EvictionCandidate> candidates;
  for (const auto& [name, entry] : entries_) {
    if (entry.state != ModelState::kReady) continue;
    EvictionCandidate one = {.name = name,
                             .bytes = entry.model->total_bytes(),
                             .idle_since = entry.model->IdleSince()};
    const int64_t n_sessions = entry.model->engine->CurrentLoad().sessions;
    if (entry.is_pinned) {
      one.kept_because = "it is pinned";
    } else if (n_sessions > 0) {
      one.kept_because = absl::StrCat(n_sessions, " of its sessions ",
                                      n_sessions == 1 ? "is" : "are", " open");
    }
    candidates.push_back(std::move(one));
  }
  return candidates;
}

absl::Status ModelRegistry::MakeRoom(Entry& wanted, IfFull if_full,
                                     const absl::Status& refusal) {
  std::vector<Entry*> chosen;
  {
    SteadyMutexLock lock(&mu_);
    if (if_full == IfFull::kRefuse && wanted.calls.empty()) return refusal;
    const auto names = ChooseEvicted(Candidates(), refusal);
    if (!names.ok()) return Settle(wanted, names.status());
    for (const std::string& name : *names) {
      chosen.push_back(&entries_.at(name));
      chosen.back()->gives_way = true;
    }
  }
  absl::Status status = UnloadFor(wanted, chosen);
  std::vector<Answer> answers;
  {
    SteadyMutexLock lock(&mu_);
    for (Entry* entry : chosen) {
      entry->gives_way = false;
      if (entry->state != ModelState::kReady) continue;
      TakeCalls(*entry, absl::OkStatus(), answers);
    }
  }
  Give(std::move(answers));
  return status;
}

absl::Status ModelRegistry::Settle(const Entry& wanted,
                                   const absl::Status& refusal) {
  if (options_.clock() - wanted.swap_end > kSettleTime) return refusal;
  mu_.AwaitFor(absl::Condition(&is_stopping_), kIdlePoll);
  return CheckWanted(wanted);
}

absl::Status ModelRegistry::UnloadFor(Entry& wanted,
                                      const std::vector<Entry*>& chosen) {
  const absl::Time end = options_.clock() + options_.swap_wait;
  const auto is_busy = [](const Entry* entry) {
    return entry->state == ModelState::kReady &&
           !entry->model->IdleSince().has_value();
  };
  SteadyMutexLock lock(&mu_);
  while (true) {
    RETURN_IF_ERROR(CheckWanted(wanted));
    const auto busy = std::find_if(chosen.begin(), chosen.end(), is_busy);
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

void ModelRegistry::UnloadExpired() {
  SteadyMutexLock lock(&mu_);
  for (auto& [name, entry] : entries_) {
    if (entry.state != ModelState::kReady) continue;
    if (entry.is_pinned || entry.gives_way) continue;
    const std::optional<absl::Time> idle_since = entry.model->IdleSince();
    if (!idle_since.has_value()) continue;
    if (options_.clock() - *idle_since >= entry.keep_alive) StartUnload(entry);
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
  size_t n_kept = 0;
  for (const ModelFlag& flag : models) {
    const auto found = entries_.find(flag.name);
    if (found == entries_.end()) continue;
    if (found->second.flag.path != flag.path) {
      return absl::FailedPreconditionError(absl::StrCat(
          "model ", flag.name, " has another file, which needs a restart"));
    }
    if (found->second.flag.sha256 != flag.sha256) {
      return absl::FailedPreconditionError(absl::StrCat(
          "model ", flag.name, " has another digest, which needs a restart"));
    }
    ++n_kept;
  }
  if (n_kept < entries_.size()) {
    return absl::FailedPreconditionError(
        "a model is gone, which needs a restart");
  }
  for (const ModelFlag& flag : models) {
    const auto [place, is_new] = entries_.try_emplace(flag.name);
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
  ASSIGN_OR_RETURN(Entry * entry, Find(name));
  entry->keep_alive = keep_alive;
  return absl::OkStatus();
}

void ModelRegistry::SetDefaultKeepAlive(absl::Duration keep_alive) {
  SteadyMutexLock lock(&mu_);
  for (auto& [name, entry] : entries_) {
    if (entry.keep_alive == keep_alive_) entry.keep_alive = keep_alive;
  }
  keep_alive_ = keep_alive;
}

void ModelRegistry::SetPinned(const std::vector<std::string>& names) {
  SteadyMutexLock lock(&mu_);
  for (auto& [name, entry] : entries_) {
    entry.is_pinned =
        std::find(names.begin(), names.end(), name) != names.end();
  }
}

}  // namespace plimsoll::services
