// How a worker is configured.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_OPTIONS_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "planner/layout/device_profile.h"
#include "planner/layout/memory_plan.h"
#include "services/server/flags.h"
#include "worker/device/compute_device.h"
#include "worker/engine/engine.h"
#include "worker/text/chat/chat_template.h"

namespace plimsoll::services {

// A worker's load options where no flag says otherwise: four slots.
inline planner::LoadOptions WorkerLoadDefaults() {
  planner::LoadOptions options;
  options.n_slots = 4;
  options.n_parked = 1;
  return options;
}

class ByteBudget;
class RuntimeMonitor;
class WorkerObserver;

// One of the devices that a worker's models lie on.
struct WorkerDevice {
  const worker::ComputeDevice* compute;  // outlives all models
  std::string id;                        // as the planner is to know it
  std::optional<int64_t> memory_bytes;   // of all models together
  // The device, with its memory as it is now.
  std::function<planner::DeviceProfile()> profile;
};

// --device, --device-memory and --device-id.
struct DeviceFlags {
  std::vector<std::string> names = {"cpu"};  // "cpu" or "cuda:N", in order
  std::vector<int64_t> memory_bytes;         // none, one, or one for each
  std::string ids;                           // empty, or one for each
};

struct WorkerOptions {
  std::vector<ModelFlag> models;
  bool lazy = false;  // models are loaded by LoadModel only
  planner::LoadOptions load = WorkerLoadDefaults();
  worker::Precision precision = worker::Precision::kDefault;
  // At least one, in the order in which a token passes them.
  std::vector<WorkerDevice> devices;
  // As of worker::EngineOptions; also told when a load finds a device lost.
  std::function<absl::Status(const absl::Status&)> on_device_lost;
  int n_threads = 0;  // of a CPU; 0 = all usable ones
  // As of worker::EngineOptions, of each model.
  std::optional<int64_t> prefix_cache_bytes;
  double prompt_share = worker::EngineOptions::kPromptShare;
  std::optional<worker::ChatFormat> chat_format;
  absl::Duration drain_timeout = absl::Seconds(30);
  std::string planner;         // address; empty = plans by itself
  std::string holder;          // of the leases
  std::string profile_folder;  // of runtime profiles; empty = the default one
  std::function<absl::Time()> clock;  // BootTime
  // Told of every load and unload; outlives the registry. Null: nobody is.
  RuntimeMonitor* runtime = nullptr;
  // Told of steps, requests, loads and leases; outlives the registry. Null:
  // nobody is.
  WorkerObserver* observer = nullptr;
  bool logs_requests = false;  // one line for each request that has ended
  // Counts the messages of all calls; outlives the registry. Null: the registry
  // has one of its own, of kMessageBytes.
  ByteBudget* messages = nullptr;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_OPTIONS_H_
