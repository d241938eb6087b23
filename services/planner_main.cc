// plimsoll-planner: plans models on devices and grants their memory.
#include <grpcpp/impl/service_type.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/host/background.h"
#include "services/host/crash/core_dumps.h"
#include "services/host/crash/crash_report.h"
#include "services/host/hang_watch.h"
#include "services/host/lock_checks.h"
#include "services/host/log.h"
#include "services/host/service_manager.h"
#include "services/http/metrics_server.h"
#include "services/metrics/planner_metrics.h"
#include "services/planner/ledger.h"
#include "services/planner/open_ledger.h"
#include "services/planner/planner.h"
#include "services/planner/planner_flags.h"
#include "services/planner/planner_reload.h"
#include "services/planner/planner_service.h"
#include "services/server/flags.h"
#include "services/server/server.h"
#include "services/server/work_pool.h"
#include "services/settings/settings.h"
#include "services/sources/catalogue_file.h"
#include "services/tracing/tracer.h"

namespace plimsoll::services {
namespace {

// Answers health checks while the planner is on standby: it lives and is not
// ready.
class StandbyServer {
 public:
  // Listens, unless the planner that has the journal has the address, too.
  void Start(const ServerOptions& options) {
    auto server = Server::Start(options, {&no_calls_}, gate_);
    if (server.ok()) {
      server_ = *std::move(server);
      return;
    }
    Log(LogLevel::kInfo, "on standby without health checks",
        {{"reason", std::string(server.status().message())}});
  }

 private:
  v1::PlannerService::CallbackService no_calls_;  // each is UNIMPLEMENTED
  CallGate gate_;
  std::unique_ptr<Server> server_;
};

// Opens the ledger, after a time on standby if the flags say so.
absl::StatusOr<LedgerOptions> AwaitLedger(const PlannerFlags& flags) {
  StandbyServer standby;
  bool is_first_wait = true;
  ASSIGN_OR_RETURN(LedgerOptions ledger,
                   OpenLedger(flags.options, [&](absl::Duration patience) {
                     if (std::exchange(is_first_wait, false)) {
                       standby.Start(flags.server);
                     }
                     return SignalComes(patience);
                   }));
  // The other planner grants what this one would grant too.
  ledger.on_taken_over = [] {
    FlushLog();
    std::_Exit(1);
  };
  return ledger;
}

using Reread = std::function<absl::StatusOr<PlannerFlags>()>;

// Returns at the signal that ends the planner.
void AwaitEnd(const ReloadTargets& targets, const Reread& reread,
              Settings settings) {
  if (reread == nullptr) {
    AwaitSignal();
    return;
  }
  AwaitSignal([&] { ReloadPlanner(reread(), targets, settings); });
}

absl::Status Run(const PlannerFlags& all_flags, const Reread& reread) {
  const ServerOptions& options = all_flags.server;
  const PlannerOptions& flags = all_flags.options;
  ASSIGN_OR_RETURN(const auto log,
                   LogThread::Start(options.log, STDERR_FILENO));
  ASSIGN_OR_RETURN(const auto tracer,
                   Tracer::Start(all_flags.tracing, "plimsoll-planner"));
  ASSIGN_OR_RETURN(auto models, ReadPlannerModels(flags.models));
  ASSIGN_OR_RETURN(auto catalogue, LoadCatalogue(flags.catalogue));
  auto ledger_options = AwaitLedger(all_flags);
  if (absl::IsCancelled(ledger_options.status())) return absl::OkStatus();
  if (!ledger_options.ok()) return ledger_options.status();
  PlannerMetrics metrics;
  ledger_options->observer = &metrics;
  Ledger ledger(*std::move(ledger_options));
  const auto tick = [&ledger] { ledger.Tick(); };
  Planner planner(std::move(models), ledger);
  CallGate gate;
  std::atomic<bool> listens = false;
  std::atomic<bool> is_alive = true;
  const auto takes_calls = [&] { return listens && !gate.is_closed(); };
  const auto text = [&] {
    return metrics.Text(ledger, takes_calls(), gate.auth_failures());
  };
  ASSIGN_OR_RETURN(
      const auto scraped,
      MetricsServer::StartIfAny(options.metrics_listen,
                                {.metrics = text,
                                 .is_ready = takes_calls,
                                 .is_alive = [&] { return is_alive.load(); }}));
  ASSIGN_OR_RETURN(const auto pool, WorkPool::Start());
  const auto service =
      NewPlannerService({.planner = planner,
                         .ledger = ledger,
                         .gate = gate,
                         .pool = *pool,
                         .catalogue = std::move(catalogue),
                         .reader_timeout = options.reader_timeout});
  ASSIGN_OR_RETURN(const auto server,
                   Server::Start(options, {service.get()}, gate));
  HangWatch hangs;
  hangs.Watch(
      HangWatch::OverLock("the lock of the ledger", tick, [&](bool now) {
        is_alive = now;
        server->SetAlive(now);
      }));
  // It hangs if the ledger's lock does, and then no call is answered either.
  ServiceManager manager([tick] { return tick(), true; });
  server->SetReady(true);
  listens = true;
  AnnounceAddress(server->address(), server->admin_address());
  manager.Ready();
  AwaitEnd({planner, ledger}, reread, all_flags.settings);
  manager.Stopping();
  Log(LogLevel::kInfo, "draining");
  ledger.feed().End();
  server->Drain([&pool] { pool->Abort(); });
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  ReportCrashes();
  DisableLockChecks();
  HoldSignals();
  PlannerFlags flags;
  if (const auto code = ParsePlannerFlags(argc, argv, flags)) return *code;
  if (!flags.server.allows_core_dumps) ForbidCoreDumps();
  Reread reread;
  if (!flags.settings.path.empty()) {
    HoldHangup();
    reread = [=] { return ReadPlannerFlagsAgain(argc, argv); };
  }
  return ExitCode(NeedsThreads([&] { return Run(flags, reread); }));
}

}  // namespace
}  // namespace plimsoll::services

int main(int argc, char** argv) { return plimsoll::services::Main(argc, argv); }
