// What points of faults (base/sync/fault.h) have a call end with.
#ifndef PLIMSOLL_SERVICES_WIRE_BROKEN_CONNECTION_H_
#define PLIMSOLL_SERVICES_WIRE_BROKEN_CONNECTION_H_

#include <grpcpp/support/status.h>

namespace plimsoll::services {

// What gRPC says of a call whose connection broke.
inline grpc::Status BrokenConnection() {
  return {grpc::StatusCode::UNAVAILABLE, "Socket closed"};
}

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WIRE_BROKEN_CONNECTION_H_
