#include "services/server/access/tcp_socket.h"

#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::services {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

bool SetOption(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof(value)) == 0;
}

// What connections inherit from the socket that they came from.
bool SetOptions(int fd, int family) {
  const auto timeout = static_cast<int>(absl::ToInt64Milliseconds(kAckTimeout));
  return SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1) &&
         SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1) &&
         SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, timeout) &&
         (family != AF_INET6 || SetOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0));
}

bool IsWildcard(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return v4.sin_addr.s_addr == htonl(INADDR_ANY);
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  return IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
}

// The port of an address, in the order of the wire.
in_port_t& PortIn(sockaddr& address) {
  return address.sa_family == AF_INET
             ? reinterpret_cast<sockaddr_in&>(address).sin_port
             : reinterpret_cast<sockaddr_in6&>(address).sin6_port;
}

int PortOfSocket(int fd) {
  sockaddr_in6 bound = {};  // has room for both families
  auto& address = reinterpret_cast<sockaddr&>(bound);
  socklen_t n_bytes = sizeof(bound);
  if (getsockname(fd, &address, &n_bytes) != 0) return 0;
  return ntohs(PortIn(address));
}

// Some systems name an address twice.
bool IsRepeated(const addrinfo& one, const addrinfo* list) {
  for (; list != &one; list = list->ai_next) {
    const bool is_equal =
        list->ai_addrlen == one.ai_addrlen &&
        std::memcmp(list->ai_addr, one.ai_addr, one.ai_addrlen) == 0;
    if (is_equal) return true;
  }
  return false;
}

// This machine has no such address.
bool IsMissing(int error) {
  return error == EAFNOSUPPORT || error == EADDRNOTAVAIL ||
         error == EPROTONOSUPPORT;
}

// Returns 0, or the system's error.
int Listen(const sockaddr& address, socklen_t n_bytes, OwnedFd& made) {
  const int family = address.sa_family;
  OwnedFd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0 || !SetOptions(fd.get(), family) ||
      bind(fd.get(), &address, n_bytes) != 0 ||
      listen(fd.get(), SOMAXCONN) != 0) {
    return errno;
  }
  made = std::move(fd);
  return 0;
}

// Listens on all interfaces, by one socket for IPv4 and IPv6 if there is IPv6.
int ListenEverywhere(in_port_t wire_port, OwnedFd& made) {
  sockaddr_in6 v6 = {};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = wire_port;
  const int error =
      Listen(reinterpret_cast<const sockaddr&>(v6), sizeof(v6), made);
  if (!IsMissing(error)) return error;
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_port = wire_port;
  return Listen(reinterpret_cast<const sockaddr&>(v4), sizeof(v4), made);
}

int ListenOn(const addrinfo& one, OwnedFd& made) {
  return IsWildcard(*one.ai_addr) ? ListenEverywhere(PortIn(*one.ai_addr), made)
                                  : Listen(*one.ai_addr, one.ai_addrlen, made);
}

// Listens on all of `list`. Returns 0, or the error of the address that is in
// the way.
int ListenOnAll(const addrinfo* list, int port, TcpSockets& made) {
  int missing = EADDRNOTAVAIL;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    const int wanted = port != 0 ? port : made.port;
    PortIn(*one->ai_addr) = htons(static_cast<uint16_t>(wanted));
    if (IsRepeated(*one, list)) continue;
    OwnedFd fd;
    const int error = ListenOn(*one, fd);
    if (IsMissing(error)) {
      missing = error;
      continue;
    }
    if (error != 0) return error;
    made.port = PortOfSocket(fd.get());
    made.sockets.push_back(std::move(fd));
  }
  return made.sockets.empty() ? missing : 0;
}

absl::StatusOr<AddressList> Resolve(const ListenAddress& address,
                                    absl::string_view name) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", name, ": ", gai_strerror(error)));
  }
  return AddressList(found, &freeaddrinfo);
}

}  // namespace

absl::StatusOr<TcpSockets> ListenOnTcp(const ListenAddress& address) {
  int port = 0;
  if (!absl::SimpleAtoi(address.port, &port)) {
    return absl::InternalError("the port of an address is a number");
  }
  const std::string name = JoinListen(address.host, port);
  ASSIGN_OR_RETURN(const AddressList list, Resolve(address, name));
  int error = 0;
  for (int i = 0; i < kMaxPortTries; ++i) {
    TcpSockets made;
    error = ListenOnAll(list.get(), port, made);
    if (error == 0) return made;
    const bool has_chosen = port == 0 && !made.sockets.empty();
    if (error != EADDRINUSE || !has_chosen) break;
  }
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", name, ": ", std::strerror(error)));
}

}  // namespace plimsoll::services
