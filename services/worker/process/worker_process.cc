#include "services/worker/process/worker_process.h"

#include <grpcpp/impl/service_type.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/generation/message_bytes.h"
#include "services/host/check_threads.h"
#include "services/host/log.h"
#include "services/host/runtime_key.h"
#include "services/server/byte_budget.h"
#include "services/server/flags.h"
#include "services/server/work_pool.h"
#include "services/wire/errors.h"
#include "services/worker/calls/services.h"
#include "services/worker/models/lease_keeper.h"
#include "services/worker/models/model_registry.h"
#include "services/worker/models/planner_client.h"
#include "services/worker/models/runtime_monitor.h"
#include "services/worker/process/device_guard.h"
#include "services/worker/process/log_observer.h"
#include "worker/device/compute_device.h"
#include "worker/device/host_resources.h"

namespace plimsoll::services {
namespace {

// Clients have this long to receive the ends of their streams.
constexpr absl::Duration kLossGrace = absl::Seconds(2);
// Each of several devices has this long to say whether it is lost.
constexpr absl::Duration kLossPatience = absl::Seconds(2);

// Threads of a worker beside gRPC's, its pool's and those that a model computes
// on: the monitor, the keeper, the guard; of a load the loader, the reader and
// the steps.
constexpr int kOwnThreads = 6;

// Asks for all threads that a worker has with one model, before any of gRPC's
// is started, which its calls to a planner need.
absl::Status CheckWorkerThreads(const WorkerOptions& options) {
  const int n_compute =
      options.n_threads > 0 ? options.n_threads : worker::UsableThreads();
  return CheckThreads(GrpcThreads() + WorkPool::kMaxThreads + kOwnThreads +
                      n_compute);
}

// What streams end with.
absl::Status DeviceLost(const absl::Status& error) {
  return WithDetails(
      absl::UnavailableError(
          absl::StrCat("the worker's device is lost, and the worker ends: ",
                       error.message())),
      {v1::ERROR_REASON_DEVICE_UNHEALTHY, {}, PlannerClient::kRetryDelay});
}

// A device with memory of its own, as it was at the start: one that hangs may
// not answer.
struct Accelerator {
  std::string id;
  const worker::ComputeDevice* compute;
  planner::DeviceProfile profile;
};

std::vector<Accelerator> AcceleratorsOf(const WorkerOptions& options) {
  std::vector<Accelerator> found;
  for (const WorkerDevice& device : options.devices) {
    if (device.compute->is_host()) continue;
    found.push_back({device.id, device.compute, device.profile()});
  }
  return found;
}

// Finds the lost ones of `devices`, of which at least one was just lost.
std::vector<Accelerator> LostOnes(const std::vector<Accelerator>& devices) {
  if (devices.size() == 1) return devices;
  std::vector<std::function<absl::Status()>> checks;
  checks.reserve(devices.size());
  for (const Accelerator& device : devices) {
    checks.push_back([compute = device.compute] { return compute->Check(); });
  }
  std::vector<Accelerator> lost;
  for (const size_t i : FindLost(checks, kLossPatience)) {
    lost.push_back(devices[i]);
  }
  return lost;
}

// What a driver takes of the host is its devices' doing: such a process is
// measured apart from those on the CPU alone.
RuntimeMonitor::Options MonitorOptions(
    const WorkerOptions& options,
    const std::vector<Accelerator>& accelerators) {
  ByteBudget* const messages = options.messages;
  planner::DeviceProfile host = worker::LocalCpuProfile();
  for (const Accelerator& device : accelerators) {
    absl::StrAppend(&host.name, " + ", device.profile.kind);
  }
  return {.folder = options.profile_folder,
          .key = RuntimeKeyOf(host, OwnProgram()),
          .load = {.n_threads = options.n_threads > 0 ? options.n_threads
                                                      : worker::UsableThreads(),
                   .n_slots = options.load.n_slots,
                   .n_rows = options.load.n_ubatch},
          .memory = OwnMemory(),
          .device =
              [] {
                planner::DeviceProfile profile = worker::LocalCpuProfile();
                profile.message_bytes = kPlannedMessageBytes;
                return profile;
              },
          .traffic = [messages] { return messages->traffic(); }};
}

void TellPlanner(const std::vector<Accelerator>& devices, PlannerClient* client,
                 LeaseKeeper* keeper) {
  if (client == nullptr) return;
  keeper->Stop();
  for (Accelerator device : LostOnes(devices)) {
    device.profile.free_bytes = 0;
    const absl::Status status =
        client->RegisterDevice(device.id, std::move(device.profile),
                               /*is_unhealthy=*/true);
    if (status.ok()) continue;
    Log(LogLevel::kWarning, "the planner was not told of a device",
        {{"device", device.id}, {"error", std::string(status.message())}});
  }
}

// What the devices say of themselves, naming the one that fails.
absl::Status CheckAll(const std::vector<Accelerator>& devices) {
  for (const Accelerator& device : devices) {
    const absl::Status status = device.compute->Check();
    if (status.ok()) continue;
    return devices.size() == 1
               ? status
               : absl::Status(status.code(),
                              absl::StrCat(device.id, ": ", status.message()));
  }
  return absl::OkStatus();
}

// What ends when a device is lost.
struct LossTargets {
  ModelRegistry& registry;
  CallGate& gate;
  Server& server;
  PlannerClient* client;  // null without a planner, as the next one
  LeaseKeeper* keeper;
  bool has_host;  // among the devices
};

// Has the process end if one of the devices is lost. Both outlive the guard's
// watch.
void WatchDevices(DeviceGuard& guard, const std::vector<Accelerator>& devices,
                  const LossTargets& targets) {
  const auto end = [targets, devices](const absl::Status& error) {
    const absl::Status reason = DeviceLost(error);
    Log(LogLevel::kError, reason.message());
    targets.server.SetReady(false);
    targets.registry.AbortAll(reason);
    TellPlanner(devices, targets.client, targets.keeper);
    // Streams that ended are read to their ends; what hangs is not waited for.
    targets.gate.Close();
    targets.gate.AwaitIdle(kLossGrace);
    std::_Exit(kExitDeviceLost);
  };
  guard.Watch(
      {.longest_step = [targets] { return targets.registry.LongestStep(); },
       .probe = [devices] { return CheckAll(devices); },
       .on_lost = end,
       .max_step = targets.has_host ? DeviceGuard::kMaxStepWithHost
                                    : DeviceGuard::kMaxStep});
}

}  // namespace

absl::Status RunWorker(const ServerOptions& server_options,
                       WorkerOptions options) {
  RETURN_IF_ERROR(CheckListen(server_options));
  RETURN_IF_ERROR(CheckWorkerThreads(options));
  std::unique_ptr<PlannerClient> client;
  ByteBudget messages(kMessageBytes);
  options.messages = &messages;
  LogObserver log(options.logs_requests ? LogObserver::Requests::kLogged
                                        : LogObserver::Requests::kNotLogged);
  if (options.observer == nullptr) options.observer = &log;
  // What the process takes of a device with memory of its own was measured
  // when it was opened.
  std::optional<RuntimeMonitor> runtime;
  const auto host = std::find_if(
      options.devices.begin(), options.devices.end(),
      [](const WorkerDevice& device) { return device.compute->is_host(); });
  const std::vector<Accelerator> accelerators = AcceleratorsOf(options);
  if (host != options.devices.end()) {
    runtime.emplace(MonitorOptions(options, accelerators));
    options.runtime = &*runtime;
    host->profile = [&runtime] { return runtime->Profile(); };
  }
  std::unique_ptr<LeaseKeeper> keeper;
  if (!options.planner.empty()) {
    client = std::make_unique<PlannerClient>(options.planner, options.holder,
                                             options.clock);
    keeper = std::make_unique<LeaseKeeper>(*client, options.devices,
                                           options.clock, options.observer);
    if (runtime.has_value()) {
      runtime->SetListener([&client, &runtime, id = host->id] {
        // If the planner does not answer, the next load tells it.
        client->RegisterDevice(id, runtime->Profile()).IgnoreError();
      });
    }
  }
  DeviceGuard guard;
  if (!accelerators.empty()) {
    options.on_device_lost = [&guard](const absl::Status& error) {
      guard.Report(error);
      return DeviceLost(error);
    };
  }
  ModelRegistry registry(options, client.get(), keeper.get());
  CallGate gate;
  const auto pool = WorkPool::Start();
  if (!pool.ok()) return pool.status();
  const absl::Duration patience = server_options.reader_timeout;
  const auto generation =
      NewGenerationService(registry, gate, **pool, patience);
  const auto session = NewSessionService(registry, gate, **pool, patience);
  const auto tokenizer = NewTokenizerService(registry, gate, **pool, patience);
  const auto model = NewModelService(registry, gate, patience);
  const auto admin = NewAdminService(registry, gate, patience);
  auto server = Server::Start(server_options,
                              {generation.get(), session.get(), tokenizer.get(),
                               model.get(), admin.get()},
                              gate);
  if (!server.ok()) return server.status();
  if (!accelerators.empty()) {
    WatchDevices(guard, accelerators,
                 {registry, gate, **server, client.get(), keeper.get(),
                  runtime.has_value()});
  }
  registry.LoadAtStart();
  registry.SetReadyListener([&](bool ready) { (*server)->SetReady(ready); });
  AnnounceAddress((*server)->address());
  AwaitSignal();
  Log(LogLevel::kInfo, "draining");
  (*server)->Drain([&] {
    (*pool)->Abort();
    registry.AbortAll();
  });
  if (runtime.has_value()) runtime->SampleStopped();
  registry.UnloadAll();  // leases are released last
  guard.Stop();
  registry.SetReadyListener(nullptr);
  return absl::OkStatus();
}

}  // namespace plimsoll::services
