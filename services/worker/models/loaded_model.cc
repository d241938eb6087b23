#include "services/worker/models/loaded_model.h"

#include <utility>

namespace plimsoll::services {

LoadedModel::LoadedModel(std::function<absl::Time()> clock)
    : clock_(std::move(clock)), last_use_(clock_()) {}

LoadedModel::Use LoadedModel::Enter() {
  SteadyMutexLock lock(&mu_);
  ++uses_;
  return Use(this);
}

bool LoadedModel::AwaitUnused(absl::Duration timeout) {
  SteadyMutexLock lock(&mu_);
  const auto unused = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return uses_ == 0;
  };
  return mu_.AwaitFor(absl::Condition(&unused), timeout);
}

std::optional<absl::Time> LoadedModel::IdleSince() const {
  if (engine->CurrentLoad().sessions > 0) return std::nullopt;
  SteadyMutexLock lock(&mu_);
  if (uses_ > 0) return std::nullopt;
  return last_use_;
}

int64_t LoadedModel::total_bytes() const {
  int64_t bytes = 0;
  for (const worker::EnginePart& part : engine->parts()) {
    bytes += part.plan.total_bytes;
  }
  return bytes;
}

std::vector<std::string> LoadedModel::device_ids() const {
  std::vector<std::string> ids;
  for (const Part& part : parts) ids.push_back(part.device_id);
  return ids;
}

void LoadedModel::EndUse() {
  SteadyMutexLock lock(&mu_);
  --uses_;
  last_use_ = clock_();
}

}  // namespace plimsoll::services
