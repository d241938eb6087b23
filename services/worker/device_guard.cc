#include "services/worker/device_guard.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace plimsoll::services {

DeviceGuard::~DeviceGuard() { Stop(); }

void DeviceGuard::Stop() {
  {
    absl::MutexLock lock(&mu_);
    is_stopping_ = true;
  }
  thread_.Join();
}

void DeviceGuard::Report(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  if (!lost_.has_value()) lost_ = status;
}

void DeviceGuard::Watch(Options options) {
  thread_ = Background([this, options = std::move(options)] { Loop(options); });
}

absl::Status DeviceGuard::Look(const Options& options) {
  const absl::Duration step = options.longest_step();
  if (step > kMaxStep) {
    return absl::UnavailableError(absl::StrCat(
        "a step has run for ", absl::FormatDuration(step), ", more than ",
        absl::FormatDuration(kMaxStep), ": the device hangs"));
  }
  if (step > absl::ZeroDuration()) return absl::OkStatus();
  return options.probe();
}

void DeviceGuard::Loop(const Options& options) {
  while (true) {
    std::optional<absl::Status> lost;
    {
      absl::MutexLock lock(&mu_);
      const auto is_due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return is_stopping_ || lost_.has_value();
      };
      mu_.AwaitWithTimeout(absl::Condition(&is_due), options.interval);
      if (is_stopping_) return;
      lost = lost_;
    }
    if (lost.has_value()) return options.on_lost(*lost);
    if (const absl::Status status = Look(options); !status.ok()) {
      Report(status);
    }
  }
}

}  // namespace plimsoll::services
