// A gRPC server with the project's limits, health and reflection, and with an
// orderly end.
#ifndef PLIMSOLL_SERVICES_SERVER_SERVER_H_
#define PLIMSOLL_SERVICES_SERVER_SERVER_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/host/log.h"
#include "services/server/call_gate.h"
#include "services/server/tls_files.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace plimsoll::services {

class Listener;

// Limits at the edge.
inline constexpr int kMaxMessageBytes = 4 << 20;
inline constexpr int kMaxRequestMetadataBytes = 16 << 10;
inline constexpr int kMaxStreamsPerConnection = 128;
// gRPC itself, with reflection, may buffer this much for all connections.
// Beyond this, gRPC ends some connections.
inline constexpr size_t kMaxBufferBytes = 64 << 20;
inline constexpr absl::Duration kMaxConnectionIdle = absl::Minutes(5);
inline constexpr absl::Duration kMaxConnectionAge = absl::Hours(1);
// The longest times of a client's connection.
struct ConnectionLimits {
  absl::Duration idle = kMaxConnectionIdle;  // without a call
  absl::Duration age = kMaxConnectionAge;    // gRPC varies it by a tenth
  // The time that calls get on a connection that is too old.
  absl::Duration age_grace = kMaxConnectionAge;
};
// A call whose client reads nothing for this long is cancelled.
inline constexpr absl::Duration kReaderTimeout = absl::Seconds(30);
// The deadline of a unary call that has none.
inline constexpr absl::Duration kUnaryDeadline = absl::Minutes(10);
// Threads of a server, without gRPC's executor (measured on 2 cores: 8 of gRPC
// at the start, and an accepting one for each address).
inline constexpr int kServerThreads = 10;

// The health service of this name is SERVING while the process lives and
// nothing in it hangs. The empty name is readiness.
inline constexpr char kLivenessService[] = "liveness";

struct ServerOptions {
  // host:port, port 0 = any; or unix:/path.
  std::string listen = "127.0.0.1:0";
  // The only address for methods that change the server (roles.h), in the form
  // of `listen`. Empty: these methods are served at `listen`.
  std::string admin_listen = {};
  mode_t socket_mode = 0660;        // mode of the files of Unix sockets
  bool allow_insecure = false;      // allows any address without TLS and tokens
  bool has_reflection = false;      // at any address, not only loopback
  std::string metrics_listen = {};  // host:port; empty: no metrics
  ServerTls tls = {};
  std::string tokens = "";  // a file of tokens; empty: the server takes none
  std::vector<std::string> grants = {};  // as ParseGrant takes them
  absl::Duration drain_timeout = absl::Seconds(30);
  absl::Duration reader_timeout = kReaderTimeout;
  LogSettings log = {};
  bool allows_core_dumps = false;
  ConnectionLimits connections = {};

  // Whether the server identifies callers at `listen`, so that tenants are
  // proven. The server then has a CallGuard.
  bool knows_callers() const;
};

// Checks the addresses, TLS and the grants. Errors: kInvalidArgument if an
// address is neither host:port nor unix:/path, if both are the same, for TLS
// without an address of TCP, for grants that the addresses or TLS make useless,
// and those of CheckServerTls and of ParseGrants; kFailedPrecondition if an
// address is not loopback, `allow_insecure` is false, and there is no TLS or
// neither tokens nor client certificates.
absl::Status CheckListen(const ServerOptions& options);

// Threads that gRPC may take in this process, as client and as server.
int GrpcThreads();

// Thread-safe, except for construction and destruction.
class Server {
 public:
  // Starts to serve `services`. The server is not ready yet. Closing `gate`
  // makes it permanently not ready. `services` and `gate` must outlive the
  // server.
  // Errors: those of CheckListen, TokenFile::Open and Listener::Start;
  // kResourceExhausted if the system does not give GrpcThreads() more threads.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const ServerOptions& options, const std::vector<grpc::Service*>& services,
      CallGate& gate);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The listening address with the actual port, or unix:/path.
  const std::string& address() const;
  // The address for administration, in the same form; "" without admin_listen.
  std::string admin_address() const;

  // Sets readiness, the health of the empty name. Ignored once the gate is
  // closed.
  void SetReady(bool ready);

  // Sets liveness, the health of kLivenessService, which is SERVING at first.
  void SetAlive(bool alive);

  // Closes the gate: new calls are refused, and the server is not ready any
  // more. Waits up to drain_timeout for the running calls, then calls `abort`,
  // which must end them, then shuts down.
  void Drain(const std::function<void()>& abort);

 private:
  Server(const ServerOptions& options, CallGate& gate);

  // Starts gRPC's server, which has no connection yet. `guard` is null if all
  // calls are taken.
  absl::Status Build(const std::vector<grpc::Service*>& services,
                     const std::shared_ptr<CallGuard>& guard);
  // Starts to accept at the addresses of the options.
  absl::Status Listen();
  void StopListening();

  const ServerOptions options_;
  CallGate& gate_;
  absl::Mutex mu_;  // orders changes of readiness
  std::unique_ptr<grpc::Server> server_;
  // The listeners end first.
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Listener> admin_listener_;  // null without admin_listen
};

// Makes SIGTERM and SIGINT wait for AwaitSignal(). Call it before any thread
// starts.
void HoldSignals();
// Makes SIGHUP wait too. Without this call, SIGHUP ends the process. Call it
// before any thread starts.
void HoldHangup();
// Waits for one of the signals of HoldSignals() and returns true, or false
// after `patience`.
bool SignalComes(absl::Duration patience);
// Runs what SIGHUP asks for. If it gets no memory, the log says so, and the
// server goes on with what was read before.
void Reread(const std::function<void()>& reread);
// Returns on the first of the signals of HoldSignals(); a second one ends the
// process at once. Until then it calls `on_hangup`, which needs HoldHangup(),
// at each SIGHUP.
void AwaitSignal(const std::function<void()>& on_hangup = nullptr);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_SERVER_H_
