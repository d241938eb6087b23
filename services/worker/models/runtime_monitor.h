// Measures how much memory this process takes beside its plans while it is
// idle, keeps the figure on disk, and says how much to plan for it.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_RUNTIME_MONITOR_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_RUNTIME_MONITOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/sync/steady_mutex.h"
#include "planner/layout/device_profile.h"
#include "planner/layout/runtime_profile.h"
#include "services/host/background.h"
#include "services/host/runtime/runtime_store.h"
#include "services/server/byte_budget.h"

namespace plimsoll::services {

// Functions that measure the process's own memory.
struct ProcessMemory {
  // Gives back what the heap does not use and returns the exact number of
  // resident bytes. May take milliseconds.
  std::function<int64_t()> resident_bytes;
};

// Reads the memory of this process from /proc.
ProcessMemory OwnMemory();

// A measurement counts only if no call lives that may hold memory for its
// messages, none has worked since the sample before, and no model comes or
// goes: buffers of requests have a budget of their own (byte_budget.h) and are
// no runtime. A call lives until gRPC has sent its reply.
//
// The figure that is published, Profile(), is taken at the start from what
// earlier processes measured or the committed bound. It changes only as
// planner::MergeRuntime says, so that plans agree whatever was asked between
// them; it is never below what was measured. Thread-safe.
class RuntimeMonitor {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(10);

  // A model is expected while one of these exists: it is being planned, or it
  // is in memory.
  class Expectation {
   public:
    Expectation() = default;
    Expectation(Expectation&& other) noexcept { *this = std::move(other); }
    Expectation& operator=(Expectation&& other) noexcept {
      std::swap(monitor_, other.monitor_);
      std::swap(id_, other.id_);
      return *this;
    }
    ~Expectation() {
      if (monitor_ != nullptr) monitor_->Forget(id_);
    }

   private:
    friend class RuntimeMonitor;
    Expectation(RuntimeMonitor* monitor, int64_t id)
        : monitor_(monitor), id_(id) {}
    RuntimeMonitor* monitor_ = nullptr;
    int64_t id_ = 0;
  };

  struct Options {
    std::string folder;         // folder of profiles; empty: none are kept
    planner::RuntimeKey key;    // names this program on this device
    planner::RuntimeLoad load;  // this process is started for it
    ProcessMemory memory;
    // Returns the device as it is now. Its runtime is replaced.
    std::function<planner::DeviceProfile()> device;
    // Returns what calls hold, and have held, for their messages.
    std::function<ByteBudget::Traffic()> traffic;
    std::function<absl::Time()> wall_clock = absl::Now;  // dates a profile
    absl::Duration interval = kInterval;                 // between samples
  };

  // Reads the kept profile, and logs why if it cannot be used.
  explicit RuntimeMonitor(Options options);
  ~RuntimeMonitor();
  RuntimeMonitor(const RuntimeMonitor&) = delete;
  RuntimeMonitor& operator=(const RuntimeMonitor&) = delete;

  // Returns the device with the runtime to plan: for the load that this process
  // was started for and the newest model that is expected.
  planner::DeviceProfile Profile() const ABSL_LOCKS_EXCLUDED(mu_);

  // `listener` is called without locks, from any thread, when Profile()
  // changed.
  void SetListener(std::function<void()> listener) ABSL_LOCKS_EXCLUDED(mu_);

  // Says that a model of this load is about to be planned. It is expected while
  // the returned object exists, which must be gone before the monitor is: to
  // the end of a load that fails, or to the end of the model. Pages of a mapped
  // model are resident beside its plan, so nothing is measured meanwhile.
  [[nodiscard]] Expectation Expect(const planner::RuntimeLoad& load,
                                   bool is_mapped = false)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Says that a model's memory is about to come or to go. The monitor samples
  // once more, and then again when every change has ended.
  void BeginChange() ABSL_LOCKS_EXCLUDED(mu_);
  // Ends a change: `planned_bytes` more of what the process holds are in plans;
  // fewer if negative; 0 for a load that failed.
  void EndChange(int64_t planned_bytes) ABSL_LOCKS_EXCLUDED(mu_);

  // Measures if the process is idle, and keeps the figure. The monitor calls it
  // at every interval, too.
  void Sample() ABSL_LOCKS_EXCLUDED(mu_);
  // Samples after the server has ended, when no call is left.
  void SampleStopped() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Forget(int64_t id) ABSL_LOCKS_EXCLUDED(mu_);
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  void SampleIf(bool is_stopped) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns whether no call lives and none has worked since the last question.
  bool IsQuiet() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns true if Profile() changed.
  bool Measure() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Keep() ABSL_LOCKS_EXCLUDED(keep_mu_, mu_);
  // The load that Profile() is for, and the load of all models in memory.
  planner::RuntimeLoad PlannedLoad() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  planner::RuntimeLoad WholeLoad() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  const RuntimeStore store_;
  absl::Mutex keep_mu_;  // one write at a time; never taken under mu_
  mutable SteadyMutex mu_;
  std::function<void()> listener_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, planner::RuntimeLoad> expected_ ABSL_GUARDED_BY(mu_);
  std::set<int64_t> mapped_ ABSL_GUARDED_BY(mu_);  // keys of expected_
  int64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  // Profile() is made of it; if absent, of the committed bound.
  std::optional<planner::RuntimeProfile> published_ ABSL_GUARDED_BY(mu_);
  // The last measurement that is not kept yet, if there is one.
  std::optional<planner::RuntimeProfile> seen_ ABSL_GUARDED_BY(mu_);
  // The traffic of messages at the last look.
  int64_t n_shares_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_held_ ABSL_GUARDED_BY(mu_) = false;
  int64_t planned_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t n_changes_ ABSL_GUARDED_BY(mu_) = 0;  // changes that have not ended
  // The log says already that the figure cannot be kept.
  bool has_complained_ ABSL_GUARDED_BY(mu_) = false;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  Background thread_;  // last: it uses everything above
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_RUNTIME_MONITOR_H_
