#include "services/host/hang_watch.h"

#include <utility>

#include "services/host/log.h"

namespace plimsoll::services {

using Clock = std::chrono::steady_clock;

HangWatch::Options HangWatch::OverLock(
    std::string lock, std::function<void()> take,
    std::function<void(bool is_alive)> on_change) {
  return {.longest_stall =
              [take = std::move(take)] {
                take();
                return Stall{};
              },
          .lock = std::move(lock),
          .on_change = std::move(on_change)};
}

HangWatch::~HangWatch() { Stop(); }

void HangWatch::Watch(Options options) {
  options_ = std::move(options);
  looks_ = Background([this] { Look(); });
  decides_ = Background([this] { Decide(); });
}

void HangWatch::Stop() {
  {
    SteadyMutexLock lock(&mu_);
    is_stopping_ = true;
  }
  decides_.Join();
  looks_.Join();
}

bool HangWatch::Sleep() {
  SteadyMutexLock lock(&mu_);
  return !mu_.AwaitFor(absl::Condition(&is_stopping_), options_.interval);
}

void HangWatch::Look() {
  while (Sleep()) {
    {
      SteadyMutexLock lock(&mu_);
      look_began_ = Clock::now();
    }
    Stall longest = options_.longest_stall();
    SteadyMutexLock lock(&mu_);
    longest_ = std::move(longest);
    look_began_.reset();
  }
}

std::optional<HangWatch::Hang> HangWatch::Find() {
  SteadyMutexLock lock(&mu_);
  if (look_began_.has_value()) {
    const auto time = absl::FromChrono(Clock::now() - *look_began_);
    if (time > options_.look_time) {
      return Hang{{time, options_.lock}, options_.look_time};
    }
  }
  if (longest_.time <= options_.limit) return std::nullopt;
  return Hang{longest_, options_.limit};
}

void HangWatch::Decide() {
  bool was_alive = true;
  while (Sleep()) {
    const std::optional<Hang> hang = Find();
    const bool is_alive = !hang.has_value();
    if (is_alive == was_alive) continue;
    was_alive = is_alive;
    if (is_alive) {
      Log(LogLevel::kInfo, "what hung goes on: liveness is SERVING again");
    } else {
      Log(LogLevel::kError,
          "no progress for longer than the limit: liveness falls",
          {{"of", hang->stall.what},
           {"for", absl::FormatDuration(hang->stall.time)},
           {"limit", absl::FormatDuration(hang->limit)}});
    }
    options_.on_change(is_alive);
  }
}

}  // namespace plimsoll::services
