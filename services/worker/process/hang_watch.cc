#include "services/worker/process/hang_watch.h"

#include <utility>

#include "services/host/log.h"

namespace plimsoll::services {

HangWatch::~HangWatch() { Stop(); }

void HangWatch::Watch(Options options) {
  thread_ = Background([this, options = std::move(options)] { Loop(options); });
}

void HangWatch::Stop() {
  {
    SteadyMutexLock lock(&mu_);
    is_stopping_ = true;
  }
  thread_.Join();
}

void HangWatch::Loop(const Options& options) {
  bool was_alive = true;
  while (true) {
    {
      SteadyMutexLock lock(&mu_);
      if (mu_.AwaitFor(absl::Condition(&is_stopping_), options.interval)) {
        return;
      }
    }
    const Stall stall = options.longest_stall();
    const bool is_alive = stall.time <= options.limit;
    if (is_alive == was_alive) continue;
    was_alive = is_alive;
    if (is_alive) {
      Log(LogLevel::kInfo, "what hung goes on: liveness is SERVING again");
    } else {
      Log(LogLevel::kError,
          "no progress for longer than --hang-timeout: liveness falls",
          {{"of", stall.what},
           {"for", absl::FormatDuration(stall.time)},
           {"limit", absl::FormatDuration(options.limit)}});
    }
    options.on_change(is_alive);
  }
}

}  // namespace plimsoll::services
