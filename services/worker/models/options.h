// How a worker is configured.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_OPTIONS_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_OPTIONS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "planner/layout/device_profile.h"
#include "planner/layout/memory_plan.h"
#include "services/server/flags.h"
#include "services/server/tls_files.h"
#include "worker/device/compute_device.h"
#include "worker/engine/engine.h"
#include "worker/text/chat/chat_template.h"

namespace plimsoll::services {

// The load options of a worker without flags: four slots.
inline planner::LoadOptions WorkerLoadDefaults() {
  planner::LoadOptions options;
  options.n_slots = 4;
  options.n_parked = 1;
  return options;
}

class ByteBudget;
class QuotaBook;
class RuntimeMonitor;
class WorkerObserver;

// One of the devices that a worker's models lie on.
struct WorkerDevice {
  const worker::ComputeDevice* compute;  // outlives all models
  std::string id;                        // the planner's name for it
  std::optional<int64_t> memory_bytes;   // limit of all models together
  // Returns the device with its memory as it is now.
  std::function<planner::DeviceProfile()> profile;
};

// The values of --device, --device-memory and --device-id.
struct DeviceFlags {
  std::vector<std::string> names = {"cpu"};  // "cpu" or "cuda:N", in order
  std::vector<int64_t> memory_bytes;         // none, one, or one for each
  std::string ids;                           // empty, or one for each
};

struct WorkerOptions {
  bool IsPinned(const std::string& name) const {
    return std::find(pinned.begin(), pinned.end(), name) != pinned.end();
  }

  std::vector<ModelFlag> models;
  bool lazy = false;  // models are loaded by LoadModel only
  // A call for a model that is not loaded has it loaded, and idle ones unloaded
  // for it. Only pinned models are loaded at the start.
  bool on_demand = false;
  std::vector<std::string> pinned;  // names of models that are never unloaded
  // A model that is not pinned is unloaded once nobody has used it for this
  // time.
  absl::Duration keep_alive = absl::InfiniteDuration();
  // The longest time that a load waits for models in use to become idle.
  absl::Duration swap_wait = absl::Minutes(1);
  planner::LoadOptions load = WorkerLoadDefaults();
  worker::Precision precision = worker::Precision::kDefault;
  // At least one, in the order in which a token passes them.
  std::vector<WorkerDevice> devices;
  // worker::EngineOptions has it, too. A load that finds a device lost calls it
  // as well.
  std::function<absl::Status(const absl::Status&)> on_device_lost;
  int n_threads = 0;  // on a CPU; 0 = all usable ones
  // Each model's worker::EngineOptions have the next four.
  std::optional<int64_t> prefix_cache_bytes;
  worker::Preemption preemption = worker::Preemption::kOn;
  double prompt_share = worker::EngineOptions::kPromptShare;
  double prompt_share_beside_others =
      worker::EngineOptions::kPromptShareBesideOthers;
  std::optional<worker::ChatFormat> chat_format;
  absl::Duration drain_timeout = absl::Seconds(30);
  // A part of a layer, or a chunk of a load, that takes longer than this hangs:
  // the process is not live then. On a slow CPU a part of a layer takes some
  // seconds for 512 rows.
  static constexpr absl::Duration kHangTimeout = absl::Minutes(10);
  static constexpr absl::Duration kLeastHangTimeout = absl::Seconds(1);
  static constexpr absl::Duration kMostHangTimeout = absl::Hours(24);
  absl::Duration hang_timeout = kHangTimeout;
  std::string planner;  // its address; empty: the worker plans itself
  ClientSecurity planner_security = {};  // for calls of the planner
  std::string holder;                    // the holder's name in leases
  // For a HolderFile. Empty: the next process cannot prove that this one ended.
  std::string holder_file;
  std::string profile_folder;  // for runtime profiles; empty: the default one
  std::function<absl::Time()> clock;  // BootTime
  // Is told of every load and unload, and outlives the registry. May be null.
  RuntimeMonitor* runtime = nullptr;
  // Is told of steps, requests, loads and leases, and outlives the registry.
  // May be null.
  WorkerObserver* observer = nullptr;
  bool logs_requests = false;  // a log line for each request that has ended
  std::string quota_file;      // what tenants may take; empty: no quotas
  std::string usage_file;      // for receipts; empty: none
  // Counts the messages of all calls, and outlives the registry. If null, the
  // registry makes one of kMessageBytes.
  ByteBudget* messages = nullptr;
  // What tenants may take and took; outlives the registry. Null: there are
  // neither quotas nor receipts.
  QuotaBook* quotas = nullptr;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_OPTIONS_H_
