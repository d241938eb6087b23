#include "services/worker/models/expiry_thread.h"

namespace plimsoll::services {

ExpiryThread::ExpiryThread(ModelRegistry& registry, absl::Duration interval)
    : registry_(registry), interval_(interval), thread_([this] { Loop(); }) {}

ExpiryThread::~ExpiryThread() {
  {
    SteadyMutexLock lock(&mu_);
    is_stopping_ = true;
  }
  thread_.Join();
}

void ExpiryThread::Loop() {
  while (true) {
    registry_.UnloadExpired();
    SteadyMutexLock lock(&mu_);
    if (mu_.AwaitFor(absl::Condition(&is_stopping_), interval_)) {
      return;
    }
  }
}

}  // namespace plimsoll::services
