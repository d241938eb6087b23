#include "services/server/server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <pthread.h>

#include <chrono>
#include <csignal>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/host/check_threads.h"
#include "services/server/access/grants.h"
#include "services/server/access/keepalive.h"
#include "services/server/access/local_socket.h"
#include "services/server/call_guard.h"
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
  ForEachKeepaliveArgument([&builder](const char* name, int value) {
    builder.AddChannelArgument(name, value);
  });
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

// Returns null if the server does not ask who calls.
absl::StatusOr<std::shared_ptr<CallGuard>> NewGuard(
    const ServerOptions& options) {
  if (!options.knows_callers()) return std::shared_ptr<CallGuard>();
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
  const bool is_local = IsUnixAddress(options.listen);
  for (const Grant& grant : grants) {
    if (grant.is_local() ? is_local : !options.tls.client_ca.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--grant for ", grant.identity.name, " needs ",
        grant.is_local() ? "--listen unix:/PATH" : "--tls-client-ca"));
  }
  return absl::OkStatus();
}

// Has gRPC take connections of a Unix socket from us, because a server of gRPC
// that accepts them by itself does not tell who calls. gRPC tells its calls
// apart by the credentials of their acceptor only, so each class of processes
// has one.
LocalSocket::Handler AddLocalAcceptors(
    grpc::ServerBuilder& builder, const std::shared_ptr<CallGuard>& guard) {
  using Builder = grpc::ServerBuilder::experimental_type;
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;
  auto acceptors = std::make_shared<std::vector<std::unique_ptr<Acceptor>>>();
  acceptors->reserve(guard->n_local_classes());
  for (size_t i = 0; i < guard->n_local_classes(); ++i) {
    acceptors->push_back(builder.experimental().AddExternalConnectionAcceptor(
        Builder::ExternalConnectionType::FROM_FD,
        NewLocalCredentials(guard, i)));
  }
  return [acceptors, guard](OwnedFd connection, const LocalPeer& peer) {
    Acceptor::NewConnectionParameters parameters;
    parameters.fd = connection.Take();
    acceptors->at(guard->LocalClassOf(peer))->HandleNewConnection(&parameters);
  };
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

bool ServerOptions::knows_callers() const {
  return !tokens.empty() || !grants.empty() || IsUnixAddress(listen);
}

absl::Status CheckListen(const ServerOptions& options) {
  const bool is_local = IsUnixAddress(options.listen);
  if (is_local) {
    RETURN_IF_ERROR(ParseUnixAddress(options.listen).status());
    if (options.tls.is_on()) {
      return absl::InvalidArgumentError(
          "a Unix socket has no TLS: leave out --tls-cert, or listen on "
          "HOST:PORT");
    }
  } else {
    RETURN_IF_ERROR(ParseListen(options.listen).status());
  }
  RETURN_IF_ERROR(CheckServerTls(options.tls));
  RETURN_IF_ERROR(CheckGrants(options));
  if (options.allow_insecure || is_local) return absl::OkStatus();
  const bool asks_who =
      !options.tokens.empty() || !options.tls.client_ca.empty();
  if (options.tls.is_on() && asks_who) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ListenAddress address, ParseListen(options.listen));
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
  ASSIGN_OR_RETURN(const auto guard, NewGuard(options));
  RETURN_IF_ERROR(CheckThreads(GrpcThreads()));
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    EnableReflection();
  });
  if (guard != nullptr) gate.SetGuard(guard);
  auto server = std::unique_ptr<Server>(new Server(options, gate));
  RETURN_IF_ERROR(server->Listen(services, guard));
  StartExecutorThreads();
  server->SetReady(false);
  gate.SetCloseListener([raw = server.get()] { raw->SetReady(false); });
  server->server_->GetHealthCheckService()->SetServingStatus(kLivenessService,
                                                             true);
  return server;
}

absl::Status Server::Listen(const std::vector<grpc::Service*>& services,
                            const std::shared_ptr<CallGuard>& guard) {
  grpc::ServerBuilder builder;
  SetLimits(builder);
  for (grpc::Service* service : services) builder.RegisterService(service);
  const auto failed = [this] {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options_.listen));
  };
  if (IsUnixAddress(options_.listen)) {
    ASSIGN_OR_RETURN(const std::string path, ParseUnixAddress(options_.listen));
    LocalSocket::Handler handler = AddLocalAcceptors(builder, guard);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return failed();
    address_ = absl::StrCat(kUnixPrefix, path);
    ASSIGN_OR_RETURN(local_, LocalSocket::Listen(path, options_.socket_mode,
                                                 std::move(handler)));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const ListenAddress address, ParseListen(options_.listen));
  int port = 0;
  builder.AddListeningPort(options_.listen,
                           NewServerCredentials(options_.tls, guard), &port);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0) return failed();
  address_ = JoinListen(address.host, port);
  return absl::OkStatus();
}

Server::Server(const ServerOptions& options, CallGate& gate)
    : options_(options), gate_(gate) {}

Server::~Server() {
  if (server_ == nullptr) return;
  gate_.SetCloseListener(nullptr);
  local_ = nullptr;
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
  local_ = nullptr;
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
