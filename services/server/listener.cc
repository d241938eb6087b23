#include "services/server/listener.h"

#include <grpcpp/server_builder.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/server/access/listen_address.h"
#include "services/server/access/tcp_socket.h"
#include "services/server/credentials.h"

namespace plimsoll::services {
namespace {

using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

std::unique_ptr<Acceptor> AddAcceptor(
    grpc::ServerBuilder& builder,
    std::shared_ptr<grpc::ServerCredentials> credentials) {
  using Builder = grpc::ServerBuilder::experimental_type;
  return builder.experimental().AddExternalConnectionAcceptor(
      Builder::ExternalConnectionType::FROM_FD, std::move(credentials));
}

void HandOver(OwnedFd connection, Acceptor& acceptor) {
  Acceptor::NewConnectionParameters parameters;
  parameters.fd = connection.Take();
  acceptor.HandleNewConnection(&parameters);
}

AcceptThread::Handler AddTcpAcceptor(grpc::ServerBuilder& builder,
                                     const ListenerOptions& options) {
  const std::shared_ptr<Acceptor> acceptor = AddAcceptor(
      builder,
      NewServerCredentials(options.tls, options.guard, options.served));
  return [acceptor](OwnedFd connection) {
    HandOver(std::move(connection), *acceptor);
  };
}

// gRPC tells the calls of a Unix socket apart by the credentials of their
// acceptor only, so each class of processes has one.
LocalSocket::Handler AddLocalAcceptors(grpc::ServerBuilder& builder,
                                       const ListenerOptions& options) {
  const std::shared_ptr<CallGuard>& guard = options.guard;
  auto acceptors = std::make_shared<std::vector<std::unique_ptr<Acceptor>>>();
  acceptors->reserve(guard->n_local_classes());
  for (size_t i = 0; i < guard->n_local_classes(); ++i) {
    acceptors->push_back(
        AddAcceptor(builder, NewLocalCredentials(guard, i, options.served)));
  }
  return [acceptors, guard](OwnedFd connection, const LocalPeer& peer) {
    const size_t local_class = guard->LocalClassOf(peer);
    guard->processes().Add(local_class, peer.pid);
    HandOver(std::move(connection), *acceptors->at(local_class));
  };
}

}  // namespace

Listener::Listener(grpc::ServerBuilder& builder, ListenerOptions options)
    : options_(std::move(options)) {
  if (IsUnixAddress(options_.address)) {
    take_local_ = AddLocalAcceptors(builder, options_);
  } else {
    take_ = AddTcpAcceptor(builder, options_);
  }
}

absl::Status Listener::Start() {
  return IsUnixAddress(options_.address) ? StartLocal() : StartTcp();
}

void Listener::Stop() {
  local_ = nullptr;
  tcp_ = nullptr;
}

absl::Status Listener::StartLocal() {
  ASSIGN_OR_RETURN(const std::string path, ParseUnixAddress(options_.address));
  ASSIGN_OR_RETURN(local_, LocalSocket::Listen(path, options_.socket_mode,
                                               std::move(take_local_)));
  address_ = absl::StrCat(kUnixPrefix, path);
  return absl::OkStatus();
}

absl::Status Listener::StartTcp() {
  ASSIGN_OR_RETURN(const ListenAddress address, ParseListen(options_.address));
  ASSIGN_OR_RETURN(TcpSockets made, ListenOnTcp(address));
  const std::string name = JoinListen(address.host, made.port);
  ASSIGN_OR_RETURN(floods_, FloodWatch::Start(name));
  const auto take = [floods = floods_.get(),
                     take = std::move(take_)](OwnedFd connection) {
    floods->Add(connection.get());
    take(std::move(connection));
  };
  ASSIGN_OR_RETURN(tcp_,
                   AcceptThread::Start(std::move(made.sockets), name, take));
  address_ = name;
  return absl::OkStatus();
}

}  // namespace plimsoll::services
