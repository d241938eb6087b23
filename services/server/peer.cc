#include "services/server/peer.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace plimsoll::services {
namespace {

// Returns the first 64 bits, or "" if it is no IPv6 address.
std::string NetworkOf(const std::string& ipv6) {
  std::array<unsigned char, 16> bytes = {};
  if (inet_pton(AF_INET6, ipv6.c_str(), bytes.data()) != 1) return "";
  return absl::BytesToHexString(
      {reinterpret_cast<const char*>(bytes.data()), 8});
}

}  // namespace

std::string PeerOf(absl::string_view uri) {
  if (absl::ConsumePrefix(&uri, "ipv4:")) {
    return std::string(uri.substr(0, uri.rfind(':')));
  }
  if (!absl::ConsumePrefix(&uri, "ipv6:")) return "";
  std::string address(uri.substr(0, uri.rfind(':')));
  for (const char* bracket : {"%5B", "%5D", "[", "]"}) {
    address = absl::StrReplaceAll(address, {{bracket, ""}});
  }
  // A link-local address loses its zone.
  return NetworkOf(address.substr(0, address.find('%')));
}

}  // namespace plimsoll::services
