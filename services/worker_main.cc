// plimsoll-worker: loads models exactly to their plan and serves them.
#include <grpcpp/impl/service_type.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/clock.h"
#include "services/common/flags.h"
#include "services/common/log.h"
#include "services/common/runtime_key.h"
#include "services/common/runtime_store.h"
#include "services/common/server.h"
#include "services/worker/lease_keeper.h"
#include "services/worker/model_registry.h"
#include "services/worker/options.h"
#include "services/worker/planner_client.h"
#include "services/worker/runtime_monitor.h"
#include "services/worker/services.h"
#include "services/worker/worker_flags.h"
#include "worker/compute_device.h"
#include "worker/device.h"

namespace plimsoll::services {
namespace {

// This host's name, so that devices of several hosts differ.
std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

void FillDefaults(const worker::ComputeDevice& device, WorkerOptions& options) {
  options.compute = &device;
  if (options.profile_folder.empty()) {
    options.profile_folder = DefaultProfileFolder();
  }
  options.profile = [&device] { return device.Profile(); };
  options.clock = BootTime;
  // A GPU's own name is the same in every container, the host's is not.
  if (options.device_id.empty()) options.device_id = device.unique_id();
  if (options.device_id.empty()) {
    options.device_id =
        options.planner.empty() ? "cpu" : absl::StrCat(HostName(), "/cpu");
  }
  options.holder = absl::StrCat(HostName(), "/", getpid());
}

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

absl::Status Run(const ServerOptions& server_options, WorkerOptions options) {
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
  registry.LoadAtStart();
  registry.SetReadyListener([&](bool ready) { (*server)->SetReady(ready); });
  AnnounceAddress((*server)->address());
  AwaitSignal();
  Log("draining");
  (*server)->Drain([&] { registry.AbortAll(); });
  registry.UnloadAll();  // leases are released last
  registry.SetReadyListener(nullptr);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  HoldSignals();
  ServerOptions server;
  WorkerOptions options;
  if (const auto code = ParseWorkerFlags(argc, argv, server, options)) {
    return *code;
  }
  options.drain_timeout = server.drain_timeout;
  const auto device = worker::OpenComputeDevice(options.device);
  if (!device.ok()) {
    return ExitCode(absl::Status(device.status().code(),
                                 absl::StrCat("--device ", options.device, ": ",
                                              device.status().message())));
  }
  FillDefaults(**device, options);
  return ExitCode(Run(server, std::move(options)));
}

}  // namespace
}  // namespace plimsoll::services

int main(int argc, char** argv) { return plimsoll::services::Main(argc, argv); }
