// The peer that makes a call.
#ifndef PLIMSOLL_SERVICES_SERVER_PEER_H_
#define PLIMSOLL_SERVICES_SERVER_PEER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::services {

// The peer of a call, from gRPC's name for the other end: an IPv4 address, or
// the first 64 bits of an IPv6 address, which usually belong to one user. Ports
// are ignored. Empty for a Unix socket of this machine, and if the peer is not
// known. All turns, shares and limits of peers use this.
std::string PeerOf(absl::string_view uri);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_PEER_H_
