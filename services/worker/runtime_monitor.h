// Measures what this process takes beside its plans, keeps the most that it
// saw, and says what to plan for it.
#ifndef PLIMSOLL_SERVICES_WORKER_RUNTIME_MONITOR_H_
#define PLIMSOLL_SERVICES_WORKER_RUNTIME_MONITOR_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "planner/device_profile.h"
#include "planner/runtime_profile.h"
#include "services/common/background.h"
#include "services/common/runtime_store.h"

namespace plimsoll::services {

// What the process says of its own memory.
struct ProcessMemory {
  std::function<int64_t()> resident_bytes;  // exact; may take milliseconds
  std::function<int64_t()> peak_bytes;      // since its start or the last reset
  std::function<bool()> reset_peak;         // false if that is not allowed
};

// This process's, from /proc.
ProcessMemory OwnMemory();

// The figure that is published, Profile(), is settled at the start, from what
// earlier processes measured or the committed bound, so that plans of one
// process agree; it grows at once when more is seen. Thread-safe.
class RuntimeMonitor {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(10);

  struct Options {
    std::string folder;         // where profiles are kept; empty: nowhere
    planner::RuntimeKey key;    // of this program on this device
    planner::RuntimeLoad load;  // that this process is started for
    ProcessMemory memory;
    // The device as it is now, with a runtime that is replaced.
    std::function<planner::DeviceProfile()> device;
    absl::Duration interval = kInterval;  // of samples
  };

  // Reads the kept profile; says in the log why it is not used.
  explicit RuntimeMonitor(Options options);
  ~RuntimeMonitor();
  RuntimeMonitor(const RuntimeMonitor&) = delete;
  RuntimeMonitor& operator=(const RuntimeMonitor&) = delete;

  // The device, with the runtime to plan.
  planner::DeviceProfile Profile() const ABSL_LOCKS_EXCLUDED(mu_);

  // Called without locks, from any thread, when more was seen than published.
  void SetListener(std::function<void()> listener) ABSL_LOCKS_EXCLUDED(mu_);

  // A model of this kind is about to be planned: Profile() is for it as well.
  void Expect(const planner::RuntimeLoad& load) ABSL_LOCKS_EXCLUDED(mu_);

  // A model's memory is about to come or to go. Samples once more, then not
  // before every change has ended; then at once.
  void BeginChange() ABSL_LOCKS_EXCLUDED(mu_);
  // `planned_bytes` more of what the process holds are in plans; less if
  // negative; 0 for a load that failed.
  void EndChange(int64_t planned_bytes) ABSL_LOCKS_EXCLUDED(mu_);

  // Measures now and keeps what was seen. Also called at every interval.
  void Sample() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  // Measures, unless something changes. True if more was seen than published.
  bool Measure() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Keep() ABSL_LOCKS_EXCLUDED(keep_mu_, mu_);
  int64_t PublishedBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  const RuntimeStore store_;
  absl::Mutex keep_mu_;  // one write at a time; never taken under mu_
  mutable absl::Mutex mu_;
  std::function<void()> listener_ ABSL_GUARDED_BY(mu_);
  planner::RuntimeLoad expected_ ABSL_GUARDED_BY(mu_);
  // What Profile() stands on; nothing: the bound.
  std::optional<planner::RuntimeProfile> published_ ABSL_GUARDED_BY(mu_);
  planner::RuntimeProfile seen_ ABSL_GUARDED_BY(mu_);  // bytes 0: nothing yet
  planner::RuntimeProfile kept_ ABSL_GUARDED_BY(mu_);  // in the file, we know
  int64_t planned_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t n_changes_ ABSL_GUARDED_BY(mu_) = 0;        // under way
  bool has_shrunk_ ABSL_GUARDED_BY(mu_) = false;      // by a change under way
  bool is_peak_ours_ ABSL_GUARDED_BY(mu_) = true;     // of what is planned now
  bool has_complained_ ABSL_GUARDED_BY(mu_) = false;  // that it cannot be kept
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  Background thread_;  // last: it uses everything above
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_RUNTIME_MONITOR_H_
