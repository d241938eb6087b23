#include "services/worker/models/runtime_monitor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/host/heap.h"
#include "services/host/log.h"
#include "worker/device/host_resources.h"

namespace plimsoll::services {

ProcessMemory OwnMemory() {
  return {.resident_bytes = [] {
    TrimHeap();
    return worker::ExactResidentBytes();
  }};
}

RuntimeMonitor::RuntimeMonitor(Options options)
    : options_(std::move(options)), store_(options_.folder) {
  {
    SteadyMutexLock lock(&mu_);
    n_shares_ = options_.traffic().n_shares;
    const auto kept = store_.Read(options_.key);
    if (!kept.ok()) {
      Log(LogLevel::kWarning, "the runtime profile is not used",
          {{"error", std::string(kept.status().message())}});
    } else if (kept->has_value()) {
      published_ = **kept;
    }
  }
  thread_ = Background([this] { Loop(); });
}

RuntimeMonitor::~RuntimeMonitor() {
  {
    SteadyMutexLock lock(&mu_);
    is_stopping_ = true;
  }
  thread_.Join();
  Keep();
}

planner::RuntimeLoad RuntimeMonitor::PlannedLoad() const {
  if (expected_.empty()) return options_.load;
  return planner::LargerLoad(options_.load, expected_.rbegin()->second);
}

planner::RuntimeLoad RuntimeMonitor::WholeLoad() const {
  planner::RuntimeLoad load = options_.load;
  for (const auto& [id, one] : expected_) load = LargerLoad(load, one);
  return load;
}

planner::DeviceProfile RuntimeMonitor::Profile() const {
  planner::DeviceProfile profile = options_.device();
  SteadyMutexLock lock(&mu_);
  planner::ApplyRuntime(published_ ? &*published_ : nullptr, PlannedLoad(),
                        profile);
  return profile;
}

void RuntimeMonitor::SetListener(std::function<void()> listener) {
  SteadyMutexLock lock(&mu_);
  listener_ = std::move(listener);
}

RuntimeMonitor::Expectation RuntimeMonitor::Expect(
    const planner::RuntimeLoad& load, bool is_mapped) {
  SteadyMutexLock lock(&mu_);
  expected_[next_id_] = load;
  if (is_mapped) mapped_.insert(next_id_);
  return Expectation(this, next_id_++);
}

void RuntimeMonitor::Forget(int64_t id) {
  SteadyMutexLock lock(&mu_);
  expected_.erase(id);
  mapped_.erase(id);
}

void RuntimeMonitor::BeginChange() {
  Sample();
  SteadyMutexLock lock(&mu_);
  ++n_changes_;
}

void RuntimeMonitor::EndChange(int64_t planned_bytes) {
  {
    SteadyMutexLock lock(&mu_);
    planned_bytes_ += planned_bytes;
    if (--n_changes_ > 0) return;
  }
  Sample();
}

bool RuntimeMonitor::IsQuiet() {
  const ByteBudget::Traffic traffic = options_.traffic();
  const int64_t before = std::exchange(n_shares_, traffic.n_shares);
  // What a call held may not be given back yet when its share is.
  const bool was_held = std::exchange(is_held_, traffic.n_live > 0);
  return !was_held && !is_held_ && traffic.n_shares == before;
}

bool RuntimeMonitor::Measure() {
  const int64_t resident_bytes = options_.memory.resident_bytes();
  if (resident_bytes <= 0) return false;  // it cannot be read
  const int64_t bytes = std::clamp(resident_bytes - planned_bytes_, int64_t{1},
                                   planner::RuntimeProfile::kMaxBytes);
  // Slots, rows and sorted rows may not have been used yet: only threads and
  // what they hold are certainly there.
  seen_ = {
      .key = options_.key,
      .bytes = bytes,
      .load = {.n_threads = options_.load.n_threads},
      .measured = absl::FormatTime("%Y-%m-%d %H:%M UTC", options_.wall_clock(),
                                   absl::UTCTimeZone())};
  const planner::RuntimeLoad load = WholeLoad();
  if (!published_) {
    // Plans of one process agree while its bound holds.
    if (bytes <= planner::EstimatedRuntimeBytes(load)) return false;
    published_ = *seen_;
  } else {
    planner::RuntimeProfile merged =
        MergeRuntime(*published_, *seen_, load, n_shares_ > 0);
    if (merged == *published_) return false;
    published_ = std::move(merged);
  }
  Log(LogLevel::kInfo,
      "the idle process was measured; what it takes beside its plans is "
      "planned from now on",
      {{"bytes", bytes},
       {"planned_bytes", MeasuredRuntimeBytes(*published_, PlannedLoad())}});
  return true;
}

void RuntimeMonitor::Sample() { SampleIf(/*is_stopped=*/false); }

void RuntimeMonitor::SampleStopped() { SampleIf(/*is_stopped=*/true); }

void RuntimeMonitor::SampleIf(bool is_stopped) {
  std::function<void()> listener;
  {
    SteadyMutexLock lock(&mu_);
    const bool is_quiet = IsQuiet() || is_stopped;
    // Without a model there is no plan to be beside.
    const bool is_measurable = n_changes_ == 0 && mapped_.empty();
    if (is_quiet && is_measurable && planned_bytes_ > 0 && Measure()) {
      listener = listener_;
    }
  }
  if (listener != nullptr) listener();
  Keep();
}

void RuntimeMonitor::Keep() {
  absl::MutexLock keep_lock(&keep_mu_);
  std::optional<planner::RuntimeProfile> seen;
  planner::RuntimeLoad load;
  bool has_served = false;
  {
    SteadyMutexLock lock(&mu_);
    seen.swap(seen_);
    load = WholeLoad();
    has_served = n_shares_ > 0;
  }
  if (!seen.has_value()) return;
  const auto kept =
      store_.Keep(*seen, [&](const auto& before, const auto& now) {
        return MergeRuntime(before, now, load, has_served);
      });
  if (kept.ok()) return;
  SteadyMutexLock lock(&mu_);
  if (absl::IsUnavailable(kept.status())) {
    // Another process writes: again at the next sample.
    if (!seen_.has_value()) seen_ = std::move(seen);
    return;
  }
  if (!std::exchange(has_complained_, true)) {
    Log(LogLevel::kWarning, "the runtime profile cannot be kept",
        {{"error", std::string(kept.status().message())}});
  }
}

void RuntimeMonitor::Loop() {
  while (true) {
    {
      SteadyMutexLock lock(&mu_);
      if (mu_.AwaitFor(absl::Condition(&is_stopping_), options_.interval)) {
        return;
      }
    }
    Sample();
  }
}

}  // namespace plimsoll::services
