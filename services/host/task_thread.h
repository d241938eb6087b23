// One thread that runs tasks in the order in which they were given.
#ifndef PLIMSOLL_SERVICES_HOST_TASK_THREAD_H_
#define PLIMSOLL_SERVICES_HOST_TASK_THREAD_H_

#include <deque>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "services/host/background.h"

namespace plimsoll::services {

// The thread exists from the beginning, so that adding a task cannot fail.
// Thread-safe. The owner limits the number of tasks.
class TaskThread {
 public:
  // Throws std::system_error if the system gives no thread, as Background does.
  TaskThread();
  // Runs the remaining tasks, then ends the thread.
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  void Run(std::function<void()> task) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);

  absl::Mutex mu_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  Background thread_;  // last: it uses everything above
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_TASK_THREAD_H_
