// Sockets of TCP that a server listens on.
#ifndef PLIMSOLL_SERVICES_SERVER_ACCESS_TCP_SOCKET_H_
#define PLIMSOLL_SERVICES_SERVER_ACCESS_TCP_SOCKET_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/server/access/accept_thread.h"
#include "services/server/access/listen_address.h"

namespace plimsoll::services {

// A connection ends if its other end acknowledges nothing for this time.
inline constexpr absl::Duration kAckTimeout = absl::Seconds(10);
// The most tries to find a port that is free on all addresses of a host, if the
// system chooses the port.
inline constexpr int kMaxPortTries = 16;

// Sockets that listen and do not block, all on one port.
struct TcpSockets {
  std::vector<OwnedFd> sockets;
  int port = 0;
};

// Listens on each address that the host has: a name may have several. As in
// gRPC, the address of all interfaces, 0.0.0.0 or ::, means all interfaces of
// IPv4 and of IPv6. Port 0 takes any. Connections send at once (TCP_NODELAY).
// Errors: kUnavailable, with the system's reason, if the host has no address,
// if one of them is in use, or if none of them is an address of this machine.
absl::StatusOr<TcpSockets> ListenOnTcp(const ListenAddress& address);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_ACCESS_TCP_SOCKET_H_
