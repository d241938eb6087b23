// Settings by which each side of a connection notices that the other side's
// host has vanished.
#ifndef PLIMSOLL_SERVICES_SERVER_ACCESS_KEEPALIVE_H_
#define PLIMSOLL_SERVICES_SERVER_ACCESS_KEEPALIVE_H_

#include "absl/time/time.h"
#include "grpcpp/support/channel_arguments.h"

namespace plimsoll::services {

// A connection that was silent for kPingInterval is pinged. If nothing comes
// for kPingTimeout then, it ends: a vanished host is noticed after 10 s.
inline constexpr absl::Duration kPingInterval = absl::Seconds(4);
inline constexpr absl::Duration kPingTimeout = absl::Seconds(6);
// A server ends the connection of a client that pings more often.
inline constexpr absl::Duration kMinPingInterval = absl::Seconds(3);
static_assert(kMinPingInterval < kPingInterval);

// Calls `set(name, value)` for each gRPC channel argument that configures these
// pings.
template <typename Set>
void ForEachKeepaliveArgument(const Set& set) {
  set(GRPC_ARG_KEEPALIVE_TIME_MS,
      static_cast<int>(absl::ToInt64Milliseconds(kPingInterval)));
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
      static_cast<int>(absl::ToInt64Milliseconds(kPingTimeout)));
  // A client that only reads sends no data, but must still ping.
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

// Has a client ping its server.
inline void SetKeepalive(grpc::ChannelArguments& arguments) {
  ForEachKeepaliveArgument([&arguments](const char* name, int value) {
    arguments.SetInt(name, value);
  });
}

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_ACCESS_KEEPALIVE_H_
