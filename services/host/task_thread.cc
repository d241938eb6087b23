#include "services/host/task_thread.h"

#include <utility>

namespace plimsoll::services {

TaskThread::TaskThread() : thread_([this] { Loop(); }) {}

TaskThread::~TaskThread() {
  {
    absl::MutexLock lock(&mu_);
    is_stopping_ = true;
  }
  thread_.Join();
}

void TaskThread::Run(std::function<void()> task) {
  absl::MutexLock lock(&mu_);
  tasks_.push_back(std::move(task));
}

void TaskThread::Loop() {
  while (true) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mu_);
      const auto is_due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return is_stopping_ || !tasks_.empty();
      };
      mu_.Await(absl::Condition(&is_due));
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace plimsoll::services
