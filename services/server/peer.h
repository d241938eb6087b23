// Who calls.
#ifndef PLIMSOLL_SERVICES_SERVER_PEER_H_
#define PLIMSOLL_SERVICES_SERVER_PEER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace plimsoll::services {

// Who calls, by what gRPC says of the other end of a call: an IPv4 address, or
// the first 64 bits of an IPv6 one, which one user has as a rule; ports say
// nothing. "" for a socket of this machine's file system and where it is not
// known. Turns, shares and limits of a peer all go by this.
std::string PeerOf(absl::string_view uri);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_PEER_H_
