#include "services/worker/process/worker_process.h"

#include <grpcpp/impl/service_type.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "services/host/log.h"
#include "services/host/service_manager.h"
#include "services/http/metrics_server.h"
#include "services/metrics/worker_metrics.h"
#include "services/server/flags.h"
#include "services/worker/calls/admin_service.h"
#include "services/worker/calls/generation_service.h"
#include "services/worker/calls/model_service.h"
#include "services/worker/calls/session_service.h"
#include "services/worker/calls/tokenizer_service.h"
#include "services/worker/models/observer_list.h"
#include "services/worker/process/log_observer.h"
#include "services/worker/process/worker_core.h"

namespace plimsoll::services {
namespace {

// The observers of a worker with metrics.
struct Observers {
  explicit Observers(const WorkerOptions& options)
      : log(LogObserver::RequestsOf(options)), metrics(options) {}

  LogObserver log;
  WorkerMetrics metrics;
  ObserverList both{{&log, &metrics}};
};

absl::Status CheckOptions(const ServerOptions& server,
                          const WorkerOptions& options) {
  RETURN_IF_ERROR(CheckListen(server));
  RETURN_IF_ERROR(CheckTenantFlags(options.quota_file, options.usage_file,
                                   server.knows_callers()));
  if (options.planner.empty()) return absl::OkStatus();
  return CheckClientSecurity(options.planner_security, options.planner);
}

// Errors: those of CheckWorkerThreads.
absl::Status CheckAllThreads(const WorkerOptions& options,
                             const ServerOptions& server,
                             const TracingOptions& tracing) {
  return CheckWorkerThreads(
      options, GrpcThreads() + (server.metrics_listen.empty() ? 0 : 1) +
                   (WantedBeat().has_value() ? 1 : 0) +
                   TracingThreads(tracing));
}

// Returns whether nothing hangs. It hangs itself if the lock of the models
// does.
bool GoesOn(WorkerCore& core) {
  core.registry().LongestStall();
  return core.IsAlive();
}

// Returns at the signal that ends the worker.
void AwaitEnd(ModelRegistry& registry, LogObserver& log, WorkerReload& reload) {
  if (reload.read_again == nullptr) {
    AwaitSignal();
    return;
  }
  AwaitSignal([&] { ReloadWorker(reload, registry, log); });
}

}  // namespace

absl::Status RunWorker(const ServerOptions& server_options,
                       WorkerOptions options, WorkerReload reload,
                       const TracingOptions& tracing) {
  RETURN_IF_ERROR(CheckOptions(server_options, options));
  ASSIGN_OR_RETURN(const auto log,
                   LogThread::Start(server_options.log, STDERR_FILENO));
  const bool has_metrics = !server_options.metrics_listen.empty();
  // Before any of gRPC's is started, which its calls to a planner need.
  RETURN_IF_ERROR(CheckAllThreads(options, server_options, tracing));
  ASSIGN_OR_RETURN(const auto tracer,
                   Tracer::Start(tracing, "plimsoll-worker"));
  std::optional<Observers> observers;
  if (has_metrics) options.observer = &observers.emplace(options).both;
  ASSIGN_OR_RETURN(const auto core, WorkerCore::Start(std::move(options)));
  ModelRegistry& registry = core->registry();
  CallGate& gate = core->gate();
  std::atomic<bool> is_ready = false;
  const auto takes_calls = [&] { return is_ready && !gate.is_closed(); };
  const auto text = [&] {
    return observers->metrics.Text(registry, takes_calls(),
                                   gate.auth_failures());
  };
  ASSIGN_OR_RETURN(
      const auto metrics,
      MetricsServer::StartIfAny(
          server_options.metrics_listen,
          {text, takes_calls, [raw = core.get()] { return raw->IsAlive(); }}));
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
  const auto set_ready = [&server, &is_ready](bool ready) {
    is_ready = ready;
    server->SetReady(ready);
  };
  core->WatchDevices([&set_ready] { set_ready(false); });
  registry.LoadAtStart();
  registry.SetReadyListener(set_ready);
  core->WatchHangs([&server](bool is_alive) { server->SetAlive(is_alive); });
  ServiceManager manager([&core] { return GoesOn(*core); });
  AnnounceAddress(server->address(), server->admin_address());
  manager.Ready();
  AwaitEnd(registry, has_metrics ? observers->log : core->log(), reload);
  manager.Stopping();
  Log(LogLevel::kInfo, "draining");
  server->Drain([&core] { core->AbortCalls(); });
  core->End();
  registry.SetReadyListener(nullptr);
  return absl::OkStatus();
}

}  // namespace plimsoll::services
