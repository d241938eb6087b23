#include "services/worker/loaded_model.h"

namespace plimsoll::services {

LoadedModel::Use LoadedModel::Enter() {
  absl::MutexLock lock(&mu_);
  ++uses_;
  return Use(this);
}

bool LoadedModel::AwaitUnused(absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  const auto unused = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return uses_ == 0;
  };
  return mu_.AwaitWithTimeout(absl::Condition(&unused), timeout);
}

void LoadedModel::Leave() {
  absl::MutexLock lock(&mu_);
  --uses_;
}

}  // namespace plimsoll::services
