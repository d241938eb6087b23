#include "services/worker/worker_process.h"

#include <grpcpp/impl/service_type.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/errors.h"
#include "services/common/flags.h"
#include "services/common/log.h"
#include "services/common/runtime_key.h"
#include "services/worker/device_guard.h"
#include "services/worker/lease_keeper.h"
#include "services/worker/model_registry.h"
#include "services/worker/planner_client.h"
#include "services/worker/runtime_monitor.h"
#include "services/worker/services.h"
#include "worker/compute_device.h"
#include "worker/device.h"

namespace plimsoll::services {
namespace {

// For the ends of streams on their way to their clients.
constexpr absl::Duration kLossGrace = absl::Seconds(2);

RuntimeMonitor::Options MonitorOptions(const WorkerOptions& options) {
  return {.folder = options.profile_folder,
          .key = RuntimeKeyOf(worker::LocalCpuProfile(), OwnProgram()),
          .load = {.n_threads = options.n_threads > 0 ? options.n_threads
                                                      : worker::UsableThreads(),
                   .n_slots = options.load.n_slots,
                   .n_rows = options.load.n_ubatch},
          .memory = OwnMemory(),
          .device = worker::LocalCpuProfile};
}

// What streams end with.
absl::Status DeviceLost(const absl::Status& error) {
  return WithDetails(
      absl::UnavailableError(
          absl::StrCat("the worker's device is lost, and the worker ends: ",
                       error.message())),
      {v1::ERROR_REASON_DEVICE_UNHEALTHY, {}, PlannerClient::kRetryDelay});
}

// `device` is as it was at the start: one that hangs may not answer.
void TellPlanner(planner::DeviceProfile device, PlannerClient* client,
                 LeaseKeeper* keeper) {
  if (client == nullptr) return;
  keeper->Stop();
  device.free_bytes = 0;
  const absl::Status status =
      client->RegisterDevice(std::move(device), /*is_unhealthy=*/true);
  if (!status.ok()) {
    Log(absl::StrCat("the planner was not told: ", status.message()));
  }
}

// What a lost device ends.
struct Parts {
  ModelRegistry& registry;
  CallGate& gate;
  Server& server;
  PlannerClient* client;  // null without a planner, as the next one
  LeaseKeeper* keeper;
};

// Has the process end if the device is lost. Both outlive the guard's watch.
void WatchDevice(DeviceGuard& guard, const WorkerOptions& options,
                 const Parts& parts) {
  const auto end = [parts,
                    profile = options.profile()](const absl::Status& error) {
    const absl::Status reason = DeviceLost(error);
    Log(reason.message());
    parts.server.SetReady(false);
    parts.registry.AbortAll(reason);
    TellPlanner(profile, parts.client, parts.keeper);
    // Streams that ended are read to their ends; what hangs is not waited for.
    parts.gate.Close();
    parts.gate.AwaitIdle(kLossGrace);
    std::_Exit(kExitDeviceLost);
  };
  guard.Watch({.longest_step = [parts] { return parts.registry.LongestStep(); },
               .probe = [&options] { return options.compute->Check(); },
               .on_lost = end});
}

}  // namespace

absl::Status RunWorker(const ServerOptions& server_options,
                       WorkerOptions options) {
  std::unique_ptr<PlannerClient> client;
  // What the process takes of a device with memory of its own was measured
  // when it was opened.
  std::optional<RuntimeMonitor> runtime;
  if (options.compute->is_host()) {
    runtime.emplace(MonitorOptions(options));
    options.runtime = &*runtime;
    options.profile = [&runtime] { return runtime->Profile(); };
  }
  std::unique_ptr<LeaseKeeper> keeper;
  if (!options.planner.empty()) {
    client = std::make_unique<PlannerClient>(options.planner, options.device_id,
                                             options.holder, options.clock);
    keeper =
        std::make_unique<LeaseKeeper>(*client, options.profile, options.clock);
    if (runtime.has_value()) {
      runtime->SetListener([&client, &runtime] {
        // If the planner does not answer, the next load tells it.
        client->RegisterDevice(runtime->Profile()).IgnoreError();
      });
    }
  }
  DeviceGuard guard;
  if (!options.compute->is_host()) {
    options.on_device_lost = [&guard](const absl::Status& error) {
      guard.Report(error);
      return DeviceLost(error);
    };
  }
  ModelRegistry registry(options, client.get(), keeper.get());
  CallGate gate;
  const auto generation =
      NewGenerationService(registry, gate, server_options.reader_timeout);
  const auto session =
      NewSessionService(registry, gate, server_options.reader_timeout);
  const auto tokenizer = NewTokenizerService(registry, gate);
  const auto model = NewModelService(registry, gate);
  const auto admin = NewAdminService(registry, gate);
  auto server = Server::Start(server_options,
                              {generation.get(), session.get(), tokenizer.get(),
                               model.get(), admin.get()},
                              gate);
  if (!server.ok()) return server.status();
  if (!options.compute->is_host()) {
    WatchDevice(guard, options,
                {registry, gate, **server, client.get(), keeper.get()});
  }
  registry.LoadAtStart();
  registry.SetReadyListener([&](bool ready) { (*server)->SetReady(ready); });
  AnnounceAddress((*server)->address());
  AwaitSignal();
  Log("draining");
  (*server)->Drain([&] { registry.AbortAll(); });
  registry.UnloadAll();  // leases are released last
  guard.Stop();
  registry.SetReadyListener(nullptr);
  return absl::OkStatus();
}

}  // namespace plimsoll::services
