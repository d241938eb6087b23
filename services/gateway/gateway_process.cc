#include "services/gateway/gateway_process.h"

#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/gateway/gateway_counts.h"
#include "services/gateway/gateway_metrics.h"
#include "services/gateway/remote_models.h"
#include "services/gateway/remote_planner.h"
#include "services/gateway/remote_text_call.h"
#include "services/gateway/worker_set.h"
#include "services/generation/message_bytes.h"
#include "services/host/check_threads.h"
#include "services/host/hang_watch.h"
#include "services/host/log.h"
#include "services/host/service_manager.h"
#include "services/http/front/front.h"
#include "services/http/metrics_server.h"
#include "services/http/response_store.h"
#include "services/server/call_guard.h"
#include "services/server/executor_threads.h"
#include "services/server/flags.h"
#include "services/server/token_file.h"
#include "services/server/work_pool.h"
#include "services/tracing/tracer.h"

namespace plimsoll::services {
namespace {

// Threads beside gRPC's and the pool's: of HTTP, of metrics, of the workers'
// name and state, of the log, and two of the watch over hangs.
constexpr int kOwnThreads = 7;

HttpOptions HttpOptionsOf(const GatewayFlags& flags) {
  HttpOptions options{.listen = flags.server.listen,
                      .allowed_hosts = flags.allowed_hosts,
                      .allowed_origins = flags.allowed_origins,
                      .tls = flags.server.tls};
  options.limits.reader_time = flags.server.reader_timeout;
  return options;
}

// The planner that the flags name, or null.
std::unique_ptr<RemotePlanner> NewPlanner(const GatewayFlags& flags) {
  if (flags.planner.empty()) return nullptr;
  return std::make_unique<RemotePlanner>(flags.planner, flags.workers.security);
}

// Has every call show a token, if the flags name a file of them.
// Errors: those of TokenFile::Open.
absl::Status AskForTokens(const GatewayFlags& flags, CallGate& gate) {
  if (flags.server.tokens.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto tokens,
                   TokenFile::Open(flags.server.tokens, absl::Now));
  gate.SetGuard(std::make_shared<CallGuard>(std::move(tokens), absl::Now));
  return absl::OkStatus();
}

}  // namespace

absl::Status RunGateway(const GatewayFlags& flags) {
  RETURN_IF_ERROR(CheckListen(flags.server));
  ASSIGN_OR_RETURN(const auto log,
                   LogThread::Start(flags.server.log, STDERR_FILENO));
  RETURN_IF_ERROR(CheckThreads(GrpcThreads() + WorkPool::kMaxThreads +
                               kOwnThreads + TracingThreads(flags.tracing)));
  ASSIGN_OR_RETURN(const auto tracer,
                   Tracer::Start(flags.tracing, "plimsoll-gateway"));
  CallGate gate;
  RETURN_IF_ERROR(AskForTokens(flags, gate));
  ByteBudget messages(kMessageBytes);
  GatewayCounts counts;
  RemoteCalls calls;
  ResponseStore responses(/*keeps=*/false);
  WorkerSet workers(flags.workers);
  StartExecutorThreads();
  // Its work waits for workers, and takes no core from anybody.
  ASSIGN_OR_RETURN(const auto pool,
                   WorkPool::Start({.n_threads = WorkPool::kMaxThreads}));
  const auto planner = NewPlanner(flags);
  RemoteModels models({workers, counts, calls}, messages, planner.get());
  const auto metrics_text = [&](bool is_ready) {
    return GatewayMetricsText(workers.Book(), counts, is_ready,
                              gate.auth_failures());
  };
  const auto is_ready = [&] {
    return workers.has_ready() && !gate.is_closed();
  };
  std::atomic<bool> lives = true;
  const auto is_alive = [&lives] { return lives.load(); };
  const auto page = [&] { return metrics_text(is_ready()); };
  ASSIGN_OR_RETURN(const auto metrics,
                   MetricsServer::StartIfAny(flags.server.metrics_listen,
                                             {page, is_ready, is_alive}));
  ASSIGN_OR_RETURN(
      auto front,
      Front::Start(HttpOptionsOf(flags),
                   {models, gate, *pool, responses, is_alive}, metrics_text,
                   [&workers] { return workers.has_ready(); }));
  HangWatch hangs;
  const auto look = [&workers] { workers.has_ready(); };
  hangs.Watch(HangWatch::OverLock("the lock of the workers", look,
                                  [&lives](bool now) { lives = now; }));
  // It hangs if the lock of the workers' book does.
  ServiceManager manager([look] { return look(), true; });
  const char* const scheme = flags.server.tls.is_on() ? "https://" : "http://";
  AnnounceAddress(absl::StrCat(scheme, front->address()));
  manager.Ready();
  AwaitSignal();
  manager.Stopping();
  Log(LogLevel::kInfo, "draining");
  front->Drain(flags.server.drain_timeout, [&calls, &pool] {
    pool->Abort();
    calls.AbortAll();
  });
  front.reset();
  // gRPC ends the cancelled calls soon, and they use what is above.
  gate.AwaitIdle(absl::InfiniteDuration());
  return absl::OkStatus();
}

}  // namespace plimsoll::services
