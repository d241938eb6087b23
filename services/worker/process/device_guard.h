// Notices that a device is lost: its errors, and steps that never end.
#ifndef PLIMSOLL_SERVICES_WORKER_PROCESS_DEVICE_GUARD_H_
#define PLIMSOLL_SERVICES_WORKER_PROCESS_DEVICE_GUARD_H_

#include <functional>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/host/background.h"

namespace plimsoll::services {

// Of the devices with memory of their own. An error of such a device is for
// good: nothing works on it any more in this process. Thread-safe.
class DeviceGuard {
 public:
  // A step that takes longer hangs. The largest ones take some seconds.
  static constexpr absl::Duration kMaxStep = absl::Seconds(30);
  // The same where the host computes some of the layers.
  static constexpr absl::Duration kMaxStepWithHost = absl::Minutes(10);
  static constexpr absl::Duration kInterval = absl::Seconds(1);

  struct Options {
    // How long the longest of the steps has run that run now; 0 without any.
    std::function<absl::Duration()> longest_step;
    // What the devices say of themselves. Asked while no step runs: a device
    // that hangs may not answer.
    std::function<absl::Status()> probe;
    // Told once, on the guard's thread, why a device is lost.
    std::function<void(const absl::Status&)> on_lost;
    absl::Duration interval = kInterval;
    absl::Duration max_step = kMaxStep;
  };

  DeviceGuard() = default;
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

  // Somebody had an error of a device; the first one counts. May be called
  // before Watch.
  void Report(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  // Starts to look, at every interval. Called once.
  void Watch(Options options) ABSL_LOCKS_EXCLUDED(mu_);

  // Looks no more; what `on_lost` uses may go then.
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

  // Looks now; an error is reported. Also called at every interval.
  static absl::Status Look(const Options& options);

 private:
  void Loop(const Options& options) ABSL_LOCKS_EXCLUDED(mu_);

  absl::Mutex mu_;
  std::optional<absl::Status> lost_ ABSL_GUARDED_BY(mu_);
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  Background thread_;  // last: it uses everything above
};

// Of several devices of which one is known to be lost, those that it may be:
// those whose check fails, or does not return within `patience`; all of them
// where every check is well. A check that hangs goes on in a thread of its own.
// Returns indices.
std::vector<size_t> FindLost(
    const std::vector<std::function<absl::Status()>>& checks,
    absl::Duration patience);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_PROCESS_DEVICE_GUARD_H_
