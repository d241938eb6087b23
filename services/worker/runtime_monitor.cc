#include "services/worker/runtime_monitor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/log.h"
#include "worker/device.h"

namespace plimsoll::services {

ProcessMemory OwnMemory() {
  return {.resident_bytes = worker::ExactResidentBytes,
          .peak_bytes = worker::PeakResidentBytes,
          .reset_peak = worker::ResetPeakResidentBytes};
}

RuntimeMonitor::RuntimeMonitor(Options options)
    : options_(std::move(options)), store_(options_.folder) {
  {
    absl::MutexLock lock(&mu_);
    expected_ = options_.load;
    seen_.key = options_.key;
    // Slots, rows and sorted rows may not have been used yet: only threads and
    // what they hold are certainly there.
    seen_.load = {.n_threads = options_.load.n_threads};
    const auto kept = store_.Read(options_.key);
    if (!kept.ok()) {
      Log(absl::StrCat("the runtime profile is not used: ",
                       kept.status().message()));
    } else if (kept->has_value()) {
      published_ = **kept;
      kept_ = **kept;
    }
  }
  thread_ = Background([this] { Loop(); });
}

RuntimeMonitor::~RuntimeMonitor() {
  {
    absl::MutexLock lock(&mu_);
    is_stopping_ = true;
  }
  thread_.Join();
  Sample();
}

planner::DeviceProfile RuntimeMonitor::Profile() const {
  planner::DeviceProfile profile = options_.device();
  absl::MutexLock lock(&mu_);
  planner::ApplyRuntime(published_ ? &*published_ : nullptr, expected_,
                        profile);
  return profile;
}

void RuntimeMonitor::SetListener(std::function<void()> listener) {
  absl::MutexLock lock(&mu_);
  listener_ = std::move(listener);
}

void RuntimeMonitor::Expect(const planner::RuntimeLoad& load) {
  absl::MutexLock lock(&mu_);
  expected_.n_threads = std::max(expected_.n_threads, load.n_threads);
  expected_.n_slots = std::max(expected_.n_slots, load.n_slots);
  expected_.n_rows = std::max(expected_.n_rows, load.n_rows);
  expected_.n_vocab = std::max(expected_.n_vocab, load.n_vocab);
}

void RuntimeMonitor::BeginChange() {
  Sample();
  absl::MutexLock lock(&mu_);
  ++n_changes_;
}

void RuntimeMonitor::EndChange(int64_t planned_bytes) {
  {
    absl::MutexLock lock(&mu_);
    planned_bytes_ += planned_bytes;
    // The peak is of a time when more was planned, or held by a failed load.
    if (planned_bytes <= 0) has_shrunk_ = true;
    if (--n_changes_ > 0) return;
    if (std::exchange(has_shrunk_, false)) {
      is_peak_ours_ = options_.memory.reset_peak();
    }
  }
  Sample();
}

int64_t RuntimeMonitor::PublishedBytes() const {
  return published_ ? planner::MeasuredRuntimeBytes(*published_, expected_)
                    : planner::EstimatedRuntimeBytes(expected_);
}

bool RuntimeMonitor::Measure() {
  // Without a model there is no plan to be beside.
  if (n_changes_ > 0 || planned_bytes_ == 0) return false;
  int64_t held = options_.memory.resident_bytes();
  if (is_peak_ours_) held = std::max(held, options_.memory.peak_bytes());
  const int64_t bytes = std::clamp(held - planned_bytes_, int64_t{0},
                                   planner::RuntimeProfile::kMaxBytes);
  seen_.bytes = std::max(seen_.bytes, bytes);
  const int64_t published = PublishedBytes();
  if (seen_.bytes <= published) return false;
  published_ = published_ ? planner::MergeRuntime(*published_, seen_) : seen_;
  Log(absl::StrCat("this process takes ", seen_.bytes,
                   " bytes beside its plans, more than the ", published,
                   " planned; from now on ", PublishedBytes(), " are planned"));
  return true;
}

void RuntimeMonitor::Sample() {
  std::function<void()> listener;
  {
    absl::MutexLock lock(&mu_);
    if (Measure()) listener = listener_;
  }
  if (listener != nullptr) listener();
  Keep();
}

void RuntimeMonitor::Keep() {
  // A file for every page more would be many writes for nothing.
  constexpr int64_t kStepBytes = 128 << 10;
  absl::MutexLock keep_lock(&keep_mu_);
  planner::RuntimeProfile seen;
  {
    absl::MutexLock lock(&mu_);
    const bool is_kept = kept_.bytes > 0 &&
                         seen_.bytes <= kept_.bytes + kStepBytes &&
                         planner::RuntimeGrowth(kept_.load, seen_.load) == 0;
    if (is_kept || seen_.bytes == 0) return;
    seen = seen_;
  }
  const auto kept = store_.Keep(seen);
  absl::MutexLock lock(&mu_);
  if (kept.ok()) kept_ = *kept;
  if (kept.ok() || absl::IsUnavailable(kept.status())) return;
  if (!std::exchange(has_complained_, true)) {
    Log(absl::StrCat("the runtime profile cannot be kept: ",
                     kept.status().message()));
  }
}

void RuntimeMonitor::Loop() {
  while (true) {
    {
      absl::MutexLock lock(&mu_);
      if (mu_.AwaitWithTimeout(absl::Condition(&is_stopping_),
                               options_.interval)) {
        return;
      }
    }
    Sample();
  }
}

}  // namespace plimsoll::services
