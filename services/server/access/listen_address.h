// The address of a listening server, as a flag names it.
#ifndef PLIMSOLL_SERVICES_SERVER_ACCESS_LISTEN_ADDRESS_H_
#define PLIMSOLL_SERVICES_SERVER_ACCESS_LISTEN_ADDRESS_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::services {

struct ListenAddress {
  std::string host;  // an IPv6 address is without brackets
  std::string port;  // 0 to 65535; 0 takes any
};

// Parses HOST:PORT or [HOST]:PORT. Errors: kInvalidArgument, which names
// `flag`.
absl::StatusOr<ListenAddress> ParseListen(absl::string_view listen,
                                          absl::string_view flag = "--listen");

// The prefix of a Unix socket's address: unix:/PATH.
inline constexpr char kUnixPrefix[] = "unix:";
// The length of the longest path that the system takes (sun_path, without its
// last zero).
inline constexpr size_t kMaxSocketPathBytes = 107;

bool IsUnixAddress(absl::string_view address);

// Parses unix:/PATH, also as unix:///PATH, and returns the path.
// Errors: kInvalidArgument, which names `flag`, if the path does not begin with
// '/', is too long, ends with '/' or has a zero.
absl::StatusOr<std::string> ParseUnixAddress(
    absl::string_view address, absl::string_view flag = "--listen");

// Writes HOST:PORT, with brackets around an IPv6 address.
std::string JoinListen(const std::string& host, int port);

// Returns whether only this machine reaches `host`: "localhost", 127.x.x.x and
// ::1.
bool IsLoopback(const std::string& host);

// Errors: kFailedPrecondition if the address is not loopback; the message
// contains `remedy`, an imperative clause.
absl::Status CheckLoopback(const ListenAddress& address,
                           absl::string_view remedy);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_ACCESS_LISTEN_ADDRESS_H_
