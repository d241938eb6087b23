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
// Beyond it, it ends some of them.
inline constexpr size_t kMaxBufferBytes = 64 << 20;
inline constexpr absl::Duration kMaxConnectionIdle = absl::Minutes(5);
inline constexpr absl::Duration kMaxConnectionAge = absl::Hours(1);
// How long a client may keep a connection.
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
// A server has this many threads beside those of gRPC's executor (measured on 2
// cores: 8 of gRPC at the start, and one that accepts at each address).
inline constexpr int kServerThreads = 10;

// The health service of this name is SERVING while the process lives and
// nothing in it hangs. The empty name is readiness.
inline constexpr char kLivenessService[] = "liveness";

struct ServerOptions {
  // host:port, port 0 = any; or unix:/path.
  std::string listen = "127.0.0.1:0";
  // The only address, in the form of `listen`, at which methods are served that
  // change the server (roles.h). Empty: they are served at `listen`.
  std::string admin_listen = {};
  mode_t socket_mode = 0660;    // mode of the files of Unix sockets
  bool allow_insecure = false;  // allows any address without the rest
  bool has_reflection = false;  // allows it at any address, not loopback alone
  std::string metrics_listen = {};  // host:port; empty: no metrics
  ServerTls tls = {};
  std::string tokens = "";  // a file of tokens; empty: the server takes none
  std::vector<std::string> grants = {};  // as ParseGrant takes them
  absl::Duration drain_timeout = absl::Seconds(30);
  absl::Duration reader_timeout = kReaderTimeout;
  LogSettings log = {};
  bool allows_core_dumps = false;
  ConnectionLimits connections = {};

  // Whether the server knows who calls at `listen`, so that a tenant is proven.
  // It then has a CallGuard.
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
  // Starts to serve `services`, which must outlive it; it is not ready yet.
  // Closing `gate`, which must outlive it too, makes it not ready for good.
  // Errors: those of CheckListen, TokenFile::Open and Listener::Start;
  // kResourceExhausted if the system does not give GrpcThreads() more threads.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const ServerOptions& options, const std::vector<grpc::Service*>& services,
      CallGate& gate);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The address on which it listens, with the actual port, or unix:/path.
  const std::string& address() const;
  // The address for administration, in the same form; "" without admin_listen.
  std::string admin_address() const;

  // Sets readiness, the health of the empty name. Ignored once the gate is
  // closed.
  void SetReady(bool ready);

  // Sets liveness, the health of kLivenessService, which is SERVING at first.
  void SetAlive(bool alive);

  // Closes the gate, so that new calls are refused and it is not ready at once.
  // Waits up to drain_timeout for the running calls, then calls `abort`, which
  // must end them, then shuts down.
  void Drain(const std::function<void()>& abort);

 private:
  Server(const ServerOptions& options, CallGate& gate);

  // Starts gRPC's server, which has no connection yet. `guard` is null if it
  // asks nobody.
  absl::Status Build(const std::vector<grpc::Service*>& services,
                     const std::shared_ptr<CallGuard>& guard);
  // Starts to accept where the options say.
  absl::Status Listen();
  void StopListening();

  const ServerOptions options_;
  CallGate& gate_;
  absl::Mutex mu_;  // orders changes of readiness
  std::unique_ptr<grpc::Server> server_;
  // They end first.
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Listener> admin_listener_;  // null without admin_listen
};

// Makes SIGTERM and SIGINT wait for AwaitSignal(). Call it before any thread
// starts.
void HoldSignals();
// Makes SIGHUP wait, too. Without this call, SIGHUP ends the process. Call it
// before any thread starts.
void HoldHangup();
// Waits for one of the signals of HoldSignals() and returns true, or false
// after `patience`.
bool SignalComes(absl::Duration patience);
// Returns on the first of the signals of HoldSignals(); a second one ends the
// process at once. Until then it calls `on_hangup`, which needs HoldHangup(),
// at each SIGHUP.
void AwaitSignal(const std::function<void()>& on_hangup = nullptr);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_SERVER_H_
