#include "services/server/access/local_processes.h"

namespace plimsoll::services {

void LocalProcesses::ForgetEnded() {
  for (auto it = started_.begin(); it != started_.end();) {
    const bool lives =
        it->second.has_value() && StartTicks(it->first.second) == it->second;
    it = lives ? std::next(it) : started_.erase(it);
  }
}

void LocalProcesses::Add(size_t local_class, pid_t pid) {
  if (pid <= 0) return;
  const std::optional<int64_t> ticks = StartTicks(pid);
  absl::MutexLock lock(&mu_);
  const Key key(local_class, pid);
  if (started_.count(key) == 0 && started_.size() >= kMaxProcesses) {
    ForgetEnded();
    if (started_.size() >= kMaxProcesses) return;
  }
  started_[key] = ticks;
}

absl::Status LocalProcesses::Check(size_t local_class,
                                   const ProcessIdentity& process) const {
  const bool is_comparable = own_.has_value() &&
                             process.boot_id == own_->boot_id &&
                             process.pid_namespace == own_->pid_namespace;
  if (!is_comparable) return absl::OkStatus();
  absl::MutexLock lock(&mu_);
  const auto found =
      started_.find({local_class, static_cast<pid_t>(process.pid)});
  if (found != started_.end() &&
      found->second.value_or(process.start_ticks) == process.start_ticks) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      "process: the kernel knows no connection of this process to the Unix "
      "socket; a caller names its own process, and calls without a proxy");
}

}  // namespace plimsoll::services
