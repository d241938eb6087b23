// Ends a call with a broken connection, for fault points (base/sync/fault.h).
#ifndef PLIMSOLL_SERVICES_WIRE_BROKEN_CONNECTION_H_
#define PLIMSOLL_SERVICES_WIRE_BROKEN_CONNECTION_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

namespace plimsoll::services {

// gRPC's status for a call whose connection broke.
inline grpc::Status BrokenConnection() {
  return {grpc::StatusCode::UNAVAILABLE, "Socket closed"};
}

// Lets a call end as if its connection had broken. gRPC's reactions to the call
// use this object, one after the other.
class CallBreak {
 public:
  void Break(grpc::ClientContext& context) {
    is_broken_ = true;
    context.TryCancel();
  }
  // Returns the status for a call that gRPC ended with `status`.
  grpc::Status EndOf(const grpc::Status& status) const {
    return is_broken_ ? BrokenConnection() : status;
  }

 private:
  bool is_broken_ = false;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WIRE_BROKEN_CONNECTION_H_
