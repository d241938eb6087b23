#include "services/worker/models/model_table.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/worker/models/model_description.h"
#include "services/worker/models/model_errors.h"

namespace plimsoll::services {

bool ModelEntry::IsLoading() const {
  return state == ModelState::kReserving || state == ModelState::kLoading;
}

bool ModelEntry::IsInUse() const {
  return state == ModelState::kReady && !model->IdleSince().has_value();
}

bool ModelEntry::IsExpired(absl::Time now) const {
  if (state != ModelState::kReady || is_pinned || gives_way) return false;
  const std::optional<absl::Time> idle_since = model->IdleSince();
  return idle_since.has_value() && now - *idle_since >= keep_alive;
}

int ModelEntry::LoadPercent() const {
  const int64_t total = progress.bytes_total.value_or(0);
  if (total <= 0) return 0;
  const int64_t done =
      std::clamp<int64_t>(progress.bytes_done.value_or(0), 0, total);
  return static_cast<int>(static_cast<double>(done) * 100 /
                          static_cast<double>(total));
}

absl::StatusOr<LoadedModel::Use> ModelEntry::Use() const {
  if (state == ModelState::kReady) return model->Enter();
  if (IsLoading()) return NotReady(flag.name, "is loading");
  if (state == ModelState::kDraining) {
    return NotReady(flag.name, "is being unloaded");
  }
  return NotLoaded(flag.name, last_error);
}

ModelInfo ModelEntry::Describe() const {
  ModelInfo info = {.name = flag.name,
                    .state = state,
                    .last_error = last_error,
                    .is_pinned = is_pinned,
                    .keep_alive = keep_alive};
  if (model != nullptr) info.ready = DescribeReady(*model);
  return info;
}

void ModelEntry::TakeCalls(const absl::Status& status, QuotaBook* quotas,
                           std::vector<ServedCall>& answers) {
  for (OnServed& then : std::exchange(calls, {})) {
    absl::StatusOr<LoadedModel::Use> use =
        status.ok() ? Use() : absl::StatusOr<LoadedModel::Use>(status);
    if (use.ok()) {
      answers.push_back({std::move(then), Served(*std::move(use), quotas)});
    } else {
      answers.push_back({std::move(then), use.status()});
    }
  }
}

absl::StatusOr<ModelEntry*> ModelTable::Find(const std::string& name) {
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
  return NoSuchModel(name, names);
}

absl::Status ModelTable::CheckKept(const std::vector<ModelFlag>& models) const {
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
  return absl::OkStatus();
}

bool ModelTable::IsReady() const {
  return entries_.empty() ||
         std::any_of(entries_.begin(), entries_.end(), [](const auto& one) {
           return one.second.state == ModelState::kReady;
         });
}

std::vector<ModelInfo> ModelTable::List() const {
  std::vector<ModelInfo> models;
  for (const auto& [name, entry] : entries_) models.push_back(entry.Describe());
  return models;
}

void ModelTable::Visit(
    absl::FunctionRef<void(const LoadedModel&, ModelState)> visit) const {
  for (const auto& [name, entry] : entries_) {
    if (entry.model != nullptr) visit(*entry.model, entry.state);
  }
}

std::vector<EvictionCandidate> ModelTable::Candidates() const {
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

ModelPlanner::BytesByDevice ModelTable::HeldBytes(size_t n_devices) const {
  ModelPlanner::BytesByDevice bytes(n_devices, 0);
  for (const auto& [name, entry] : entries_) {
    if (entry.model == nullptr) continue;
    for (size_t i = 0; i < entry.model->parts.size(); ++i) {
      bytes[entry.model->parts[i].device] +=
          entry.model->engine->parts()[i].plan.total_bytes;
    }
  }
  return bytes;
}

void ModelTable::SetPinned(const std::vector<std::string>& names) {
  for (auto& [name, entry] : entries_) {
    entry.is_pinned =
        std::find(names.begin(), names.end(), name) != names.end();
  }
}

void ModelTable::ReplaceKeepAlive(absl::Duration old,
                                  absl::Duration keep_alive) {
  for (auto& [name, entry] : entries_) {
    if (entry.keep_alive == old) entry.keep_alive = keep_alive;
  }
}

}  // namespace plimsoll::services
