// Notices that a step or a load hangs, on any device, and that it goes on.
#ifndef PLIMSOLL_SERVICES_WORKER_PROCESS_HANG_WATCH_H_
#define PLIMSOLL_SERVICES_WORKER_PROCESS_HANG_WATCH_H_

#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/sync/steady_mutex.h"
#include "services/host/background.h"
#include "services/worker/models/model_registry.h"

namespace plimsoll::services {

// Decides whether the process is live. A hang has no other effect: ending the
// process is up to whoever asks for its liveness. Thread-safe.
class HangWatch {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(1);

  struct Options {
    // Returns the work that has made no progress for the longest time.
    std::function<Stall()> longest_stall;
    // Work that makes no progress for longer than this hangs.
    absl::Duration limit;
    // Is called on the watch's thread, with false when something begins to
    // hang and with true when nothing hangs any more.
    std::function<void(bool is_alive)> on_change;
    absl::Duration interval = kInterval;
  };

  HangWatch() = default;
  ~HangWatch();
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;

  // Starts to look, at every interval; the log tells of each change. Called
  // once.
  void Watch(Options options);

  // Ends the watch. Afterwards on_change is not called any more.
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Loop(const Options& options) ABSL_LOCKS_EXCLUDED(mu_);

  SteadyMutex mu_;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  Background thread_;  // last: it uses everything above
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_PROCESS_HANG_WATCH_H_
