#include "services/worker/process/device_guard.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sync/steady_mutex.h"

namespace plimsoll::services {

DeviceGuard::~DeviceGuard() { Stop(); }

void DeviceGuard::Stop() {
  {
    SteadyMutexLock lock(&mu_);
    is_stopping_ = true;
  }
  thread_.Join();
}

void DeviceGuard::Report(const absl::Status& status) {
  SteadyMutexLock lock(&mu_);
  if (!lost_.has_value()) lost_ = status;
}

void DeviceGuard::Watch(Options options) {
  thread_ = Background([this, options = std::move(options)] { Loop(options); });
}

absl::Status DeviceGuard::Look(const Options& options) {
  const absl::Duration step = options.longest_step();
  const absl::Duration max_step = options.max_step();
  if (step > max_step) {
    return absl::UnavailableError(absl::StrCat(
        "a step has run for ", absl::FormatDuration(step), ", more than ",
        absl::FormatDuration(max_step), ": the device hangs"));
  }
  if (step > absl::ZeroDuration()) return absl::OkStatus();
  return options.probe();
}

void DeviceGuard::Loop(const Options& options) {
  while (true) {
    std::optional<absl::Status> lost;
    {
      SteadyMutexLock lock(&mu_);
      const auto is_due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return is_stopping_ || lost_.has_value();
      };
      mu_.AwaitFor(absl::Condition(&is_due), options.interval);
      if (is_stopping_) return;
      lost = lost_;
    }
    if (lost.has_value()) return options.on_lost(*lost);
    if (const absl::Status status = Look(options); !status.ok()) {
      Report(status);
    }
  }
}

namespace {

// What the checks have answered so far; outlives those that hang.
struct Answers {
  explicit Answers(size_t n) : is_well(n, false), n_open(n) {}

  SteadyMutex mu;
  std::vector<bool> is_well ABSL_GUARDED_BY(mu);
  size_t n_open ABSL_GUARDED_BY(mu);
};

}  // namespace

std::vector<size_t> FindLost(
    const std::vector<std::function<absl::Status()>>& checks,
    absl::Duration patience) {
  // Shared because a thread whose check hangs outlives this call.
  const auto answers = std::make_shared<Answers>(checks.size());
  for (size_t i = 0; i < checks.size(); ++i) {
    auto asked = Background::Start([answers, i, check = checks[i]] {
      const bool is_well = check().ok();
      SteadyMutexLock lock(&answers->mu);
      answers->is_well[i] = is_well;
      --answers->n_open;
    });
    if (asked.ok()) {
      asked->Detach();
      continue;
    }
    // A device that nobody can ask is not known to be well.
    SteadyMutexLock lock(&answers->mu);
    --answers->n_open;
  }
  SteadyMutexLock lock(&answers->mu);
  const auto is_done = [&answers]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(answers->mu) {
    return answers->n_open == 0;
  };
  answers->mu.AwaitFor(absl::Condition(&is_done), patience);
  std::vector<size_t> lost;
  std::vector<size_t> all;
  for (size_t i = 0; i < checks.size(); ++i) {
    all.push_back(i);
    if (!answers->is_well[i]) lost.push_back(i);
  }
  return lost.empty() ? all : lost;
}

}  // namespace plimsoll::services
