// An address that a gRPC server listens on.
#ifndef PLIMSOLL_SERVICES_SERVER_LISTENER_H_
#define PLIMSOLL_SERVICES_SERVER_LISTENER_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "services/server/access/accept_thread.h"
#include "services/server/access/flood_watch.h"
#include "services/server/access/local_socket.h"
#include "services/server/access/roles.h"
#include "services/server/call_guard.h"
#include "services/server/tls_files.h"

namespace grpc {
class ServerBuilder;
}  // namespace grpc

namespace plimsoll::services {

struct ListenerOptions {
  std::string address;        // host:port, port 0 = any; or unix:/path
  mode_t socket_mode = 0660;  // mode of a Unix socket's file
  ServerTls tls = {};         // only for TCP
  // The guard that decides about every call; null: all calls are taken. A Unix
  // socket always has a guard.
  std::shared_ptr<CallGuard> guard = nullptr;
  ServedMethods served = {};  // other methods are refused
};

// Our own thread accepts connections and passes them to gRPC. If a server of
// gRPC 1.51 accepts by itself, it does not tell the caller of a Unix socket,
// and stops accepting after it had no descriptor for a connection.
//
// Not thread-safe.
class Listener {
 public:
  // Makes the server of `builder` take connections of the address. Requires
  // that CheckListen found no error in the options.
  Listener(grpc::ServerBuilder& builder, ListenerOptions options);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Starts to listen. Requires that the server runs.
  // Errors: those of LocalSocket::Listen, ListenOnTcp and AcceptThread::Start.
  absl::Status Start();
  // Ends accepting. It must be called before the server is shut down.
  void Stop();

  // The listening address with the actual port, or unix:/path; "" before Start.
  const std::string& address() const { return address_; }

 private:
  absl::Status StartLocal();
  absl::Status StartTcp();

  const ListenerOptions options_;
  LocalSocket::Handler take_local_;  // only for a Unix socket
  AcceptThread::Handler take_;       // only for TCP
  std::string address_;
  std::unique_ptr<LocalSocket> local_;
  std::unique_ptr<FloodWatch> floods_;  // only for TCP
  std::unique_ptr<AcceptThread> tcp_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_LISTENER_H_
