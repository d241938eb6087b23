#include "services/server/server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <pthread.h>

#include <chrono>
#include <csignal>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/host/check_threads.h"
#include "services/server/credentials.h"
#include "services/server/executor_threads.h"
#include "services/server/listen_address.h"
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

void SetLimits(grpc::ServerBuilder& builder) {
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
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                             Millis(absl::Seconds(30)));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             Millis(absl::Seconds(10)));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             Millis(kMaxConnectionIdle));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                             Millis(kMaxConnectionAge));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                             Millis(kMaxConnectionAge));
  // Two servers on one port are a mistake, not load balancing.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  grpc::ResourceQuota quota("plimsoll");
  quota.Resize(kMaxBufferBytes - kReflectionBytes);
  builder.SetResourceQuota(quota);
  // Only health uses the synchronous server.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
}

// Returns null without a file of tokens.
absl::StatusOr<std::shared_ptr<CallGuard>> NewGuard(const std::string& file) {
  if (file.empty()) return std::shared_ptr<CallGuard>();
  ASSIGN_OR_RETURN(auto tokens, TokenFile::Open(file, absl::Now));
  return std::make_shared<CallGuard>(std::move(tokens), absl::Now);
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

absl::Status CheckListen(const ServerOptions& options) {
  ASSIGN_OR_RETURN(const ListenAddress address, ParseListen(options.listen));
  RETURN_IF_ERROR(CheckServerTls(options.tls));
  if (options.allow_insecure) return absl::OkStatus();
  const bool asks_who =
      !options.tokens.empty() || !options.tls.client_ca.empty();
  if (options.tls.is_on() && asks_who) return absl::OkStatus();
  return CheckLoopback(
      address,
      "Give --tls-cert and --tls-key, and --tokens or --tls-client-ca "
      "(docs/security.md), or --insecure to do it anyway");
}

int GrpcThreads() {
  const auto n_cores = static_cast<int>(std::thread::hardware_concurrency());
  return kServerThreads + kExecutorThreadsPerCore * n_cores;
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const ServerOptions& options, const std::vector<grpc::Service*>& services,
    CallGate& gate) {
  RETURN_IF_ERROR(CheckListen(options));
  ASSIGN_OR_RETURN(const ListenAddress address, ParseListen(options.listen));
  ASSIGN_OR_RETURN(const auto guard, NewGuard(options.tokens));
  RETURN_IF_ERROR(CheckThreads(GrpcThreads()));
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    EnableReflection();
  });
  if (guard != nullptr) gate.SetTokens(guard->tokens());
  auto server = std::unique_ptr<Server>(new Server(options, gate));
  grpc::ServerBuilder builder;
  SetLimits(builder);
  int port = 0;
  builder.AddListeningPort(options.listen,
                           NewServerCredentials(options.tls, guard), &port);
  for (grpc::Service* service : services) builder.RegisterService(service);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options.listen));
  }
  StartExecutorThreads();
  server->SetReady(false);
  gate.SetCloseListener([raw = server.get()] { raw->SetReady(false); });
  server->server_->GetHealthCheckService()->SetServingStatus(kLivenessService,
                                                             true);
  server->address_ = JoinListen(address.host, port);
  return server;
}

Server::Server(const ServerOptions& options, CallGate& gate)
    : options_(options), gate_(gate) {}

Server::~Server() {
  if (server_ == nullptr) return;
  gate_.SetCloseListener(nullptr);
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

void Server::SetReady(bool ready) {
  absl::MutexLock lock(&mu_);
  server_->GetHealthCheckService()->SetServingStatus(
      "", ready && !gate_.is_closed());
}

void Server::Drain(const std::function<void()>& abort) {
  gate_.Close();
  if (!gate_.AwaitIdle(options_.drain_timeout)) {
    abort();
    gate_.AwaitIdle(absl::FromChrono(kShutdownGrace));
  }
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

void AwaitSignal(const std::function<void()>& on_hangup) {
  const sigset_t ends = EndSignals();
  sigset_t set = ends;
  if (on_hangup != nullptr) sigaddset(&set, SIGHUP);
  int signal = 0;
  while (sigwait(&set, &signal) == 0 && signal == SIGHUP) on_hangup();
  // From now on the system's own reaction to the signals applies: it ends the
  // process.
  pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
}

}  // namespace plimsoll::services
