#include "services/server/access/keep_grpc.h"

#include <grpc/grpc.h>

namespace plimsoll::services {

void KeepGrpc() {
  [[maybe_unused]] static const bool is_kept = [] {
    grpc_init();
    return true;
  }();
}

}  // namespace plimsoll::services
