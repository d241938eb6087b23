// Notices the end of processes of this host.
#ifndef PLIMSOLL_SERVICES_PLANNER_PROCESS_WATCH_H_
#define PLIMSOLL_SERVICES_PLANNER_PROCESS_WATCH_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/host/background.h"
#include "services/host/process_identity.h"

namespace plimsoll::services {

// ProcessWatch holds a pidfd of each watched process and polls all of them on
// one thread. If there are too many processes, or no descriptors are left, it
// checks the process once a tick instead: a live process must never count as
// unwatchable.
// Thread-safe. Processes are named by ToString(ProcessIdentity).
class ProcessWatch {
 public:
  static constexpr size_t kMaxDescriptors = 256;
  static constexpr size_t kMaxWatched = 4'096;
  static constexpr absl::Duration kTick = absl::Seconds(1);

  struct Limits {
    size_t descriptors = kMaxDescriptors;
    size_t watched = kMaxWatched;  // watched processes in all
  };

  enum class Result {
    kWatching,
    kGone,  // the process has ended
    // The process is of another host or namespace, or is not the first thread
    // of its process, or too many are watched.
    kUnwatchable,
  };

  // `on_end` is called once for each watched process, when it has ended and is
  // no longer watched. `on_tick` is called about every kTick. Both are called
  // on the watch's own thread.
  ProcessWatch(std::function<void(const std::string&)> on_end,
               std::function<void()> on_tick, const Limits& limits);
  ProcessWatch(std::function<void(const std::string&)> on_end,
               std::function<void()> on_tick)
      : ProcessWatch(std::move(on_end), std::move(on_tick), Limits()) {}
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  Result Watch(const std::string& process) ABSL_LOCKS_EXCLUDED(mu_);
  // Stops watching `process`; on_end is not called for it.
  void Forget(const std::string& process) ABSL_LOCKS_EXCLUDED(mu_);
  bool IsWatching(const std::string& process) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  void Wake();
  // Returns a pidfd, or -1 if none can be opened; absent if the process has
  // ended.
  std::optional<int> Open(const ProcessIdentity& identity)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the processes without a pidfd that have ended, and stops watching
  // them.
  std::vector<std::string> TakeEnded() ABSL_LOCKS_EXCLUDED(mu_);

  const std::function<void(const std::string&)> on_end_;
  const std::function<void()> on_tick_;
  const std::optional<ProcessIdentity> own_;
  const int wake_fd_;  // an eventfd
  const Limits limits_;
  mutable absl::Mutex mu_;
  std::map<std::string, int> pidfds_ ABSL_GUARDED_BY(mu_);
  // The polling thread closes these pidfds.
  std::vector<int> forgotten_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, ProcessIdentity> looked_at_ ABSL_GUARDED_BY(mu_);
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  Background thread_;  // last: it uses everything above
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_PROCESS_WATCH_H_
