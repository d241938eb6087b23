#include "services/planner/process_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

namespace plimsoll::services {

ProcessWatch::ProcessWatch(std::function<void(const std::string&)> on_end,
                           std::function<void()> on_tick, const Limits& limits)
    : on_end_(std::move(on_end)),
      on_tick_(std::move(on_tick)),
      own_(OwnIdentity()),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      limits_(limits),
      thread_([this] { Loop(); }) {}

ProcessWatch::~ProcessWatch() {
  {
    absl::MutexLock lock(&mu_);
    is_stopping_ = true;
  }
  Wake();
  thread_.Join();
  for (const auto& [process, fd] : pidfds_) close(fd);
  for (const int fd : forgotten_) close(fd);
  close(wake_fd_);
}

void ProcessWatch::Wake() {
  const uint64_t one = 1;
  // A full counter wakes the thread as well, so the result does not matter.
  [[maybe_unused]] const ssize_t n = write(wake_fd_, &one, sizeof(one));
}

ProcessWatch::Result ProcessWatch::Watch(const std::string& process) {
  const std::optional<ProcessIdentity> identity = ParseIdentity(process);
  if (!identity.has_value() || !own_.has_value() ||
      identity->boot_id != own_->boot_id ||
      identity->pid_namespace != own_->pid_namespace) {
    return Result::kUnwatchable;
  }
  // The end of one thread says nothing about what its process holds.
  if (IsLaterThread(identity->pid)) return Result::kUnwatchable;
  absl::MutexLock lock(&mu_);
  if (pidfds_.count(process) + looked_at_.count(process) > 0) {
    return Result::kWatching;
  }
  if (pidfds_.size() + looked_at_.size() >= limits_.watched) {
    return Result::kUnwatchable;
  }
  const std::optional<int> fd = Open(*identity);
  if (!fd.has_value()) return Result::kGone;
  if (*fd < 0) {
    if (HasEnded(*identity)) return Result::kGone;
    looked_at_[process] = *identity;
    return Result::kWatching;
  }
  pidfds_[process] = *fd;
  Wake();
  return Result::kWatching;
}

std::optional<int> ProcessWatch::Open(const ProcessIdentity& identity) {
  if (pidfds_.size() >= limits_.descriptors) return -1;
  const auto fd = static_cast<int>(
      syscall(SYS_pidfd_open, static_cast<pid_t>(identity.pid), 0));
  if (fd < 0 && errno == ESRCH) return std::nullopt;
  if (fd < 0) return -1;
  // The pid may belong to another process by now; the fd cannot change any
  // more.
  if (StartTicks(identity.pid) == identity.start_ticks) return fd;
  close(fd);
  if (!HasEnded(identity)) return -1;
  return std::nullopt;
}

bool ProcessWatch::IsWatching(const std::string& process) const {
  absl::MutexLock lock(&mu_);
  return pidfds_.count(process) + looked_at_.count(process) > 0;
}

void ProcessWatch::Forget(const std::string& process) {
  absl::MutexLock lock(&mu_);
  looked_at_.erase(process);
  const auto found = pidfds_.find(process);
  if (found == pidfds_.end()) return;
  forgotten_.push_back(found->second);  // it may be polled right now
  pidfds_.erase(found);
  Wake();
}

std::vector<std::string> ProcessWatch::TakeEnded() {
  std::vector<std::string> ended;
  absl::MutexLock lock(&mu_);
  for (const auto& [process, identity] : looked_at_) {
    if (HasEnded(identity)) ended.push_back(process);
  }
  for (const std::string& process : ended) looked_at_.erase(process);
  return ended;
}

void ProcessWatch::Loop() {
  while (true) {
    std::vector<pollfd> polled = {{wake_fd_, POLLIN, 0}};
    std::vector<std::string> processes = {""};
    {
      absl::MutexLock lock(&mu_);
      for (const int fd : forgotten_) close(fd);
      forgotten_.clear();
      if (is_stopping_) return;
      for (const auto& [process, fd] : pidfds_) {
        polled.push_back({fd, POLLIN, 0});
        processes.push_back(process);
      }
    }
    poll(polled.data(), polled.size(),
         static_cast<int>(absl::ToInt64Milliseconds(kTick)));
    uint64_t count = 0;
    if (polled[0].revents != 0) {
      [[maybe_unused]] const ssize_t n = read(wake_fd_, &count, sizeof(count));
    }
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      {
        absl::MutexLock lock(&mu_);
        const auto found = pidfds_.find(processes[i]);
        if (found == pidfds_.end() || found->second != polled[i].fd) continue;
        pidfds_.erase(found);
      }
      close(polled[i].fd);
      on_end_(processes[i]);
    }
    for (const std::string& process : TakeEnded()) on_end_(process);
    on_tick_();
  }
}

}  // namespace plimsoll::services
