#include "services/server/access/listen_address.h"

#include <arpa/inet.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace plimsoll::services {

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return (ntohl(v4.s_addr) >> 24) == 127;
  }
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 &&
         IN6_IS_ADDR_LOOPBACK(&v6);
}

absl::StatusOr<ListenAddress> ParseListen(absl::string_view listen,
                                          absl::string_view flag) {
  const size_t colon = listen.rfind(':');
  int port = 0;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(listen.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " takes HOST:PORT, not \"", listen, "\""));
  }
  absl::string_view host = listen.substr(0, colon);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  }
  return ListenAddress{std::string(host),
                       std::string(listen.substr(colon + 1))};
}

bool IsUnixAddress(absl::string_view address) {
  return absl::StartsWith(address, kUnixPrefix);
}

absl::StatusOr<std::string> ParseUnixAddress(absl::string_view address,
                                             absl::string_view flag) {
  absl::string_view path = absl::StripPrefix(address, kUnixPrefix);
  if (absl::StartsWith(path, "///")) path.remove_prefix(2);
  if (!absl::StartsWith(path, "/") || absl::StartsWith(path, "//") ||
      absl::EndsWith(path, "/") || absl::StrContains(path, '\0')) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " takes unix:/PATH with a whole path, not \"", address, "\""));
  }
  if (path.size() > kMaxSocketPathBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, ": the path of a Unix socket has at most ", kMaxSocketPathBytes,
        " bytes, this one has ", path.size()));
  }
  return std::string(path);
}

std::string JoinListen(const std::string& host, int port) {
  const bool is_v6 = absl::StrContains(host, ':');
  return is_v6 ? absl::StrCat("[", host, "]:", port)
               : absl::StrCat(host, ":", port);
}

absl::Status CheckLoopback(const ListenAddress& address,
                           absl::string_view remedy) {
  if (IsLoopback(address.host)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "refusing to listen on ", address.host,
      ", which is not loopback: anybody there could use this server. ",
      remedy));
}

}  // namespace plimsoll::services
