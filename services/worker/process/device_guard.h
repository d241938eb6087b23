// Notices that a device is lost: its errors, and steps that never end.
#ifndef PLIMSOLL_SERVICES_WORKER_PROCESS_DEVICE_GUARD_H_
#define PLIMSOLL_SERVICES_WORKER_PROCESS_DEVICE_GUARD_H_

#include <functional>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/sync/steady_mutex.h"
#include "services/host/background.h"

namespace plimsoll::services {

// Guards the devices that have memory of their own. An error of such a device
// is final: nothing works on it any more in this process. Thread-safe.
class DeviceGuard {
 public:
  // A step that takes longer hangs. The largest steps take some seconds.
  static constexpr absl::Duration kMaxStep = absl::Seconds(30);
  // The limit of a step in which the host computes some layers or experts.
  static constexpr absl::Duration kMaxStepWithHost = absl::Minutes(10);
  static constexpr absl::Duration kInterval = absl::Seconds(1);

  struct Options {
    // Returns how long the longest step that runs now has run; 0 if none runs.
    std::function<absl::Duration()> longest_step;
    // Asks the devices for their state. It is called while no step runs,
    // because a device that hangs may not answer.
    std::function<absl::Status()> probe;
    // Is called once, on the guard's thread, with the reason of the loss.
    std::function<void(const absl::Status&)> on_lost;
    absl::Duration interval = kInterval;
    // Returns the limit of a step that runs now.
    std::function<absl::Duration()> max_step = [] { return kMaxStep; };
  };

  DeviceGuard() = default;
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

  // Reports an error of a device. The first one counts. May be called before
  // Watch.
  void Report(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  // Starts to look, at every interval. Called once.
  void Watch(Options options) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the watch. Afterwards on_lost is not called any more.
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

  // Looks once, and returns the error of a lost device.
  static absl::Status Look(const Options& options);

 private:
  void Loop(const Options& options) ABSL_LOCKS_EXCLUDED(mu_);

  SteadyMutex mu_;
  std::optional<absl::Status> lost_ ABSL_GUARDED_BY(mu_);
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  Background thread_;  // last: it uses everything above
};

// Finds out which of several devices may be lost, if it is known that one of
// them is. They are those whose check fails or does not return within
// `patience`, or all of them if no check finds anything. A check that hangs
// goes on in a thread of its own. Returns indices.
std::vector<size_t> FindLost(
    const std::vector<std::function<absl::Status()>>& checks,
    absl::Duration patience);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_PROCESS_DEVICE_GUARD_H_
