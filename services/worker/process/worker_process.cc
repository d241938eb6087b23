#include "services/worker/process/worker_process.h"

#include <grpcpp/impl/service_type.h>

#include <utility>

#include "base/status_macros.h"
#include "services/host/log.h"
#include "services/server/flags.h"
#include "services/worker/calls/services.h"
#include "services/worker/process/worker_core.h"

namespace plimsoll::services {

absl::Status RunWorker(const ServerOptions& server_options,
                       WorkerOptions options) {
  RETURN_IF_ERROR(CheckListen(server_options));
  if (!options.planner.empty()) {
    RETURN_IF_ERROR(
        CheckClientSecurity(options.planner_security, options.planner));
  }
  // Before any of gRPC's is started, which its calls to a planner need.
  RETURN_IF_ERROR(CheckWorkerThreads(options, GrpcThreads()));
  ASSIGN_OR_RETURN(const auto core, WorkerCore::Start(std::move(options)));
  ModelRegistry& registry = core->registry();
  CallGate& gate = core->gate();
  const absl::Duration patience = server_options.reader_timeout;
  const auto generation =
      NewGenerationService(registry, gate, core->pool(), patience);
  const auto session =
      NewSessionService(registry, gate, core->pool(), patience);
  const auto tokenizer =
      NewTokenizerService(registry, gate, core->pool(), patience);
  const auto model = NewModelService(registry, gate, patience);
  const auto admin = NewAdminService(registry, gate, patience);
  ASSIGN_OR_RETURN(const auto server,
                   Server::Start(server_options,
                                 {generation.get(), session.get(),
                                  tokenizer.get(), model.get(), admin.get()},
                                 gate));
  core->WatchDevices([&server] { server->SetReady(false); });
  registry.LoadAtStart();
  registry.SetReadyListener([&server](bool ready) { server->SetReady(ready); });
  AnnounceAddress(server->address());
  AwaitSignal();
  Log(LogLevel::kInfo, "draining");
  server->Drain([&core] { core->AbortCalls(); });
  core->End();
  registry.SetReadyListener(nullptr);
  return absl::OkStatus();
}

}  // namespace plimsoll::services
