#include "services/server/server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/host/check_threads.h"
#include "services/host/crash/memory_failure.h"
#include "services/host/log.h"
#include "services/host/memory_guard.h"
#include "services/server/access/grants.h"
#include "services/server/access/keepalive.h"
#include "services/server/access/listen_address.h"
#include "services/server/access/roles.h"
#include "services/server/access/tcp_socket.h"
#include "services/server/call_guard.h"
#include "services/server/executor_threads.h"
#include "services/server/listener.h"
#include "services/server/reflection.h"
#include "services/server/token_file.h"

namespace plimsoll::services {
namespace {

// The time that open health watches and finished calls get to end by
// themselves.
constexpr std::chrono::seconds kShutdownGrace(1);

int Millis(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

void SetLimits(const ConnectionLimits& limits, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE,
                             kMaxRequestMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             kMaxStreamsPerConnection);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      Millis(kMinPingInterval));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // Finds clients whose host has vanished, so that their slots are freed.
  ForEachKeepaliveArgument([&builder](const char* name, int value) {
    builder.AddChannelArgument(name, value);
  });
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             Millis(limits.idle));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                             Millis(limits.age));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                             Millis(limits.age_grace));
  // Two servers on one port are a mistake, not load balancing.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  grpc::ResourceQuota quota("plimsoll");
  quota.Resize(kMaxBufferBytes - kReflectionBytes);
  builder.SetResourceQuota(quota);
  // Only health uses the synchronous server.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
}

// Whether the server asks who calls at `address`, which is one of its own.
// Grants for users of this machine are for its Unix sockets alone.
bool IsGuarded(const ServerOptions& options, const std::string& address) {
  if (address.empty()) return false;
  if (!options.tokens.empty() || IsUnixAddress(address)) return true;
  const auto grants = ParseGrants(options.grants);
  return grants.ok() &&
         std::any_of(grants->begin(), grants->end(),
                     [](const Grant& grant) { return !grant.is_local(); });
}

// Whether reflection is served at `address`.
bool HasReflection(const ServerOptions& options, const std::string& address) {
  if (options.has_reflection || IsUnixAddress(address)) return true;
  const auto parsed = ParseListen(address);
  return parsed.ok() && IsLoopback(parsed->host);
}

// Returns null if the server asks at neither address who calls.
absl::StatusOr<std::shared_ptr<CallGuard>> NewGuard(
    const ServerOptions& options) {
  if (!IsGuarded(options, options.listen) &&
      !IsGuarded(options, options.admin_listen)) {
    return std::shared_ptr<CallGuard>();
  }
  std::shared_ptr<TokenFile> tokens;
  if (!options.tokens.empty()) {
    ASSIGN_OR_RETURN(tokens, TokenFile::Open(options.tokens, absl::Now));
  }
  ASSIGN_OR_RETURN(std::vector<Grant> grants, ParseGrants(options.grants));
  return std::make_shared<CallGuard>(std::move(tokens), absl::Now,
                                     std::move(grants));
}

// Errors: kInvalidArgument for grants whose grantees nobody asks for.
absl::Status CheckGrants(const ServerOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<Grant> grants,
                   ParseGrants(options.grants));
  const bool has_local =
      IsUnixAddress(options.listen) || IsUnixAddress(options.admin_listen);
  for (const Grant& grant : grants) {
    if (grant.is_local() ? has_local : !options.tls.client_ca.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--grant for ", grant.identity.name, " needs ",
        grant.is_local() ? "--listen unix:/PATH or --admin-listen unix:/PATH"
                         : "--tls-client-ca"));
  }
  return absl::OkStatus();
}

// Checks one address, which `flag` gave.
absl::Status CheckListenAddress(const ServerOptions& options,
                                const std::string& address,
                                absl::string_view flag) {
  if (IsUnixAddress(address)) return ParseUnixAddress(address, flag).status();
  ASSIGN_OR_RETURN(const ListenAddress parsed, ParseListen(address, flag));
  const bool asks_who =
      !options.tokens.empty() || !options.tls.client_ca.empty();
  if (options.allow_insecure || (options.tls.is_on() && asks_who)) {
    return absl::OkStatus();
  }
  return CheckLoopback(
      parsed,
      "Give --tls-cert and --tls-key, and --tokens or --tls-client-ca "
      "(docs/security.md), or --insecure to do it anyway");
}

// Errors: kInvalidArgument if both addresses are the same, and for TLS where
// there is none.
absl::Status CheckTogether(const ServerOptions& options) {
  const std::string& admin = options.admin_listen;
  const bool is_any = absl::EndsWith(admin, ":0");
  if (admin == options.listen && !is_any) {
    return absl::InvalidArgumentError(
        "--admin-listen takes another address than --listen");
  }
  const bool has_tcp = !IsUnixAddress(options.listen) ||
                       (!admin.empty() && !IsUnixAddress(admin));
  if (has_tcp || !options.tls.is_on()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "a Unix socket has no TLS: leave out --tls-cert, or listen on HOST:PORT");
}

// The signals that ask the process to end.
sigset_t EndSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

bool ServerOptions::knows_callers() const { return IsGuarded(*this, listen); }

absl::Status CheckListen(const ServerOptions& options) {
  RETURN_IF_ERROR(CheckTogether(options));
  RETURN_IF_ERROR(CheckServerTls(options.tls));
  RETURN_IF_ERROR(CheckGrants(options));
  RETURN_IF_ERROR(CheckListenAddress(options, options.listen, "--listen"));
  if (!options.admin_listen.empty()) {
    RETURN_IF_ERROR(
        CheckListenAddress(options, options.admin_listen, "--admin-listen"));
  }
  return absl::OkStatus();
}

int GrpcThreads() {
  const auto n_cores = static_cast<int>(std::thread::hardware_concurrency());
  return kServerThreads + kExecutorThreadsPerCore * n_cores;
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const ServerOptions& options, const std::vector<grpc::Service*>& services,
    CallGate& gate) {
  RETURN_IF_ERROR(CheckListen(options));
  ASSIGN_OR_RETURN(const auto guard, NewGuard(options));
  RETURN_IF_ERROR(CheckThreads(GrpcThreads()));
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    EnableReflection();
  });
  if (guard != nullptr) {
    // Who asks at the address where a method is served.
    const auto guard_at = [&](const std::string& address) {
      return IsGuarded(options, address) ? guard : nullptr;
    };
    const bool has_admin = !options.admin_listen.empty();
    gate.SetGuard(guard_at(options.listen));
    gate.SetGuardOfChanges(
        guard_at(has_admin ? options.admin_listen : options.listen));
  }
  auto server = std::unique_ptr<Server>(new Server(options, gate));
  RETURN_IF_ERROR(server->Build(services, guard));
  StartExecutorThreads();
  server->SetReady(false);
  gate.SetCloseListener([raw = server.get()] { raw->SetReady(false); });
  server->SetAlive(true);
  // Whoever gets a connection gets the health that was just set.
  RETURN_IF_ERROR(server->Listen());
  return server;
}

absl::Status Server::Build(const std::vector<grpc::Service*>& services,
                           const std::shared_ptr<CallGuard>& guard) {
  grpc::ServerBuilder builder;
  SetLimits(options_.connections, builder);
  for (grpc::Service* service : services) builder.RegisterService(service);
  const auto listener = [&](const std::string& address, MethodSet methods) {
    return std::make_unique<Listener>(
        builder, ListenerOptions{address,
                                 options_.socket_mode,
                                 options_.tls,
                                 IsGuarded(options_, address) ? guard : nullptr,
                                 {methods, HasReflection(options_, address)}});
  };
  const bool has_admin = !options_.admin_listen.empty();
  listener_ = listener(options_.listen,
                       has_admin ? MethodSet::kOrdinary : MethodSet::kAll);
  if (has_admin) {
    admin_listener_ = listener(options_.admin_listen, MethodSet::kAdmin);
  }
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return absl::UnavailableError("gRPC starts no server; its log says why");
  }
  return absl::OkStatus();
}

absl::Status Server::Listen() {
  // Nobody is served before both are there.
  if (admin_listener_ != nullptr) RETURN_IF_ERROR(admin_listener_->Start());
  return listener_->Start();
}

void Server::StopListening() {
  listener_->Stop();
  if (admin_listener_ != nullptr) admin_listener_->Stop();
}

Server::Server(const ServerOptions& options, CallGate& gate)
    : options_(options), gate_(gate) {}

Server::~Server() {
  if (server_ == nullptr) return;
  gate_.SetCloseListener(nullptr);
  StopListening();
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

const std::string& Server::address() const { return listener_->address(); }

std::string Server::admin_address() const {
  return admin_listener_ == nullptr ? "" : admin_listener_->address();
}

void Server::SetReady(bool ready) {
  absl::MutexLock lock(&mu_);
  server_->GetHealthCheckService()->SetServingStatus(
      "", ready && !gate_.is_closed());
}

void Server::SetAlive(bool alive) {
  server_->GetHealthCheckService()->SetServingStatus(kLivenessService, alive);
}

void Server::Drain(const std::function<void()>& abort) {
  gate_.Close();
  if (!gate_.AwaitIdle(options_.drain_timeout)) {
    abort();
    gate_.AwaitIdle(absl::FromChrono(kShutdownGrace));
  }
  StopListening();
  server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  server_->Wait();
}

void HoldSignals() {
  const sigset_t set = EndSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void HoldHangup() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

bool SignalComes(absl::Duration patience) {
  const sigset_t ends = EndSignals();
  const timespec time = absl::ToTimespec(patience);
  return sigtimedwait(&ends, nullptr, &time) > 0;
}

void Reread(const std::function<void()>& reread) {
  const absl::Status status = WithinMemory([&] {
    reread();
    return absl::OkStatus();
  });
  if (status.ok()) return;
  Log(LogLevel::kError, "the settings were not read again",
      {{"error", std::string(status.message())}});
}

void AwaitSignal(const std::function<void()>& on_hangup) {
  // The server serves now: a request that gets no memory ends alone.
  const MemoryFailureScope scope(MemoryFailure::kThrows);
  const sigset_t ends = EndSignals();
  sigset_t set = ends;
  if (on_hangup != nullptr) sigaddset(&set, SIGHUP);
  int signal = 0;
  while (sigwait(&set, &signal) == 0 && signal == SIGHUP) {
    Reread(on_hangup);
  }
  // From now on the system's own reaction to the signals applies: it ends the
  // process.
  pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
}

}  // namespace plimsoll::services
