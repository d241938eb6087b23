// The parts that every process with models has, whatever transport its calls
// use: the models, the memory of messages, the pool, the measurements of its
// own memory, and the watch over its devices.
#ifndef PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_CORE_H_
#define PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_CORE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/generation/message_bytes.h"
#include "services/generation/quota_book.h"
#include "services/generation/usage_file.h"
#include "services/host/hang_watch.h"
#include "services/server/byte_budget.h"
#include "services/server/call_gate.h"
#include "services/server/work_pool.h"
#include "services/worker/models/expiry_thread.h"
#include "services/worker/models/holder_file.h"
#include "services/worker/models/lease_keeper.h"
#include "services/worker/models/model_registry.h"
#include "services/worker/models/options.h"
#include "services/worker/models/planner_client.h"
#include "services/worker/models/runtime_monitor.h"
#include "services/worker/process/device_guard.h"
#include "services/worker/process/log_observer.h"

namespace plimsoll::services {

// The exit code after the loss of a device: a new process may find the device
// well. It is EX_TEMPFAIL of sysexits.h.
inline constexpr int kExitDeviceLost = 75;

// The threads that a process has with one model, `n_transport` of them for its
// transport.
int WorkerThreads(const WorkerOptions& options, int n_transport);
// Errors: kResourceExhausted if the system does not give all WorkerThreads.
absl::Status CheckWorkerThreads(const WorkerOptions& options, int n_transport);

// A device with memory of its own, as it was at the start: one that hangs may
// not answer.
struct Accelerator {
  std::string id;
  const worker::ComputeDevice* compute;
  planner::DeviceProfile profile;
};

// Thread-safe, except for construction, End and destruction.
class WorkerCore {
 public:
  // The devices of `options` outlive it.
  // Errors: kResourceExhausted if the system gives no thread for the pool;
  // those of QuotaBook::Open and UsageFile::Open.
  static absl::StatusOr<std::unique_ptr<WorkerCore>> Start(
      WorkerOptions options);
  WorkerCore(const WorkerCore&) = delete;
  WorkerCore& operator=(const WorkerCore&) = delete;

  ModelRegistry& registry() { return *registry_; }
  CallGate& gate() { return gate_; }
  WorkPool& pool() { return *pool_; }
  // The observer that is used if the options name no other one.
  LogObserver& log() { return log_; }

  // Has the process exit with kExitDeviceLost if an accelerator is lost: it
  // reports an error, or a step hangs. `set_unready` is called first; then
  // every stream ends with kUnavailable, no lease is renewed any more, and the
  // planner hears which device is unhealthy. Only the end of the process frees
  // what it holds there.
  void WatchDevices(const std::function<void()>& set_unready);

  // Returns whether nothing hangs: no step and no load has made no progress for
  // longer than WorkerOptions::hang_timeout, and nobody holds the lock of the
  // models for longer than HangWatch::kLookTime. Takes no lock.
  bool IsAlive() const { return is_alive_; }
  // Watches for hangs. A thread of its own calls `set_alive` whenever IsAlive()
  // changes. The log names the work that hangs.
  void WatchHangs(std::function<void(bool is_alive)> set_alive);

  // Ends the work of all calls, for those that outlast a drain.
  void AbortCalls();
  // Unloads all models, after the last call; leases are released last.
  void End();

 private:
  explicit WorkerCore(const WorkerOptions& options);
  void OnLost(const absl::Status& error,
              const std::function<void()>& set_unready);

  // First: it stays locked while anything of a model is in memory. Null without
  // such a file.
  std::unique_ptr<HolderFile> holder_file_;
  ByteBudget messages_{kMessageBytes};
  std::unique_ptr<UsageFile> usage_;   // null without a file of receipts
  std::unique_ptr<QuotaBook> quotas_;  // null without a file of either
  LogObserver log_;
  const std::vector<Accelerator> accelerators_;
  const bool has_host_;  // among the devices
  // Measures the process's host memory. The process's use of a device with its
  // own memory was measured when that device was opened.
  std::optional<RuntimeMonitor> runtime_;
  std::unique_ptr<PlannerClient> client_;  // null without a planner
  std::unique_ptr<LeaseKeeper> keeper_;    // as client_
  const absl::Duration hang_timeout_;
  DeviceGuard guard_;
  std::unique_ptr<ModelRegistry> registry_;
  std::optional<ExpiryThread> expiry_;  // if models are loaded on demand
  CallGate gate_;
  std::unique_ptr<WorkPool> pool_;
  std::atomic<bool> is_alive_ = true;
  HangWatch hangs_;  // last: its threads look at the models
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_CORE_H_
