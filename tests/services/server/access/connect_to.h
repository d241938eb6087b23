// A client's end of a connection over loopback.
#ifndef PLIMSOLL_TESTS_SERVICES_SERVER_ACCESS_CONNECT_TO_H_
#define PLIMSOLL_TESTS_SERVICES_SERVER_ACCESS_CONNECT_TO_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "services/server/access/accept_thread.h"

namespace plimsoll::services {

// Connects to this machine's port by AF_INET or AF_INET6. The descriptor is -1
// if nobody listens there.
inline OwnedFd ConnectTo(int family, int port) {
  OwnedFd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<uint16_t>(port));
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 v6 = {};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = v4.sin_port;
  v6.sin6_addr = in6addr_loopback;
  const bool is_v4 = family == AF_INET;
  const auto* address = is_v4 ? reinterpret_cast<const sockaddr*>(&v4)
                              : reinterpret_cast<const sockaddr*>(&v6);
  if (connect(fd.get(), address, is_v4 ? sizeof(v4) : sizeof(v6)) != 0) {
    return OwnedFd();
  }
  return fd;
}

}  // namespace plimsoll::services

#endif  // PLIMSOLL_TESTS_SERVICES_SERVER_ACCESS_CONNECT_TO_H_
