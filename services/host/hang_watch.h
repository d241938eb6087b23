// Notices that work of this process hangs, and that it continues.
#ifndef PLIMSOLL_SERVICES_HOST_HANG_WATCH_H_
#define PLIMSOLL_SERVICES_HOST_HANG_WATCH_H_

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/sync/steady_mutex.h"
#include "services/host/background.h"

namespace plimsoll::services {

// Work that has made no progress for some time.
struct Stall {
  absl::Duration time;  // 0 if no work is under way
  std::string what;     // such as "a step of model a"
};

// Decides whether the process is live. A hang has no other effect; the caller
// that asks for liveness may end the process. One thread looks at the work and
// another one decides, so that a look that waits for a lost lock is noticed
// too. Thread-safe.
class HangWatch {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(1);
  // A look that takes longer than this hangs.
  static constexpr absl::Duration kLookTime = absl::Seconds(20);

  struct Options {
    // Returns the work that has made no progress for the longest time. It takes
    // the locks that answers need.
    std::function<Stall()> longest_stall;
    // The log's name for the lock that a look takes, such as "the lock of the
    // ledger".
    std::string lock = "";
    // Work that makes no progress for longer than this hangs.
    absl::Duration limit = absl::InfiniteDuration();
    // Called on the watch's thread: with false when work begins to hang, and
    // with true when nothing hangs any more.
    std::function<void(bool is_alive)> on_change;
    absl::Duration interval = kInterval;
    absl::Duration look_time = kLookTime;
  };

  // Returns the options for watching only a lock, which `take` locks and
  // unlocks.
  static Options OverLock(std::string lock, std::function<void()> take,
                          std::function<void(bool is_alive)> on_change);

  HangWatch() = default;
  ~HangWatch();
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;

  // Starts to look, at every interval; the log tells of each change. Called
  // once. Throws std::system_error if the system gives no thread.
  void Watch(Options options);

  // Ends the watch after the running look. Afterwards on_change is not called
  // any more.
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Hang {
    Stall stall;
    absl::Duration limit;  // the limit that the stall exceeds
  };

  void Look() ABSL_LOCKS_EXCLUDED(mu_);
  void Decide() ABSL_LOCKS_EXCLUDED(mu_);
  // Returns false when the watch ends.
  bool Sleep() ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the work that hangs now.
  std::optional<Hang> Find() ABSL_LOCKS_EXCLUDED(mu_);

  Options options_;
  SteadyMutex mu_;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  // The begin of the running look.
  std::optional<std::chrono::steady_clock::time_point> look_began_
      ABSL_GUARDED_BY(mu_);
  Stall longest_ ABSL_GUARDED_BY(mu_);  // by the last look
  Background looks_;                    // they use everything above
  Background decides_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_HANG_WATCH_H_
