#include "services/server/credentials.h"

#include <grpc/grpc.h>

namespace plimsoll::services {
namespace {

// Keeps gRPC from shutting down before the process ends. Its shutdown waits for
// every thread that it started, and also for one that the system refused, so it
// might never return (timer_manager.cc of gRPC 1.51).
void KeepGrpc() {
  [[maybe_unused]] static const bool is_kept = [] {
    grpc_init();
    return true;
  }();
}

}  // namespace

std::shared_ptr<grpc::ServerCredentials> NewServerCredentials() {
  KeepGrpc();
  return grpc::InsecureServerCredentials();
}

std::shared_ptr<grpc::ChannelCredentials> NewChannelCredentials() {
  KeepGrpc();
  return grpc::InsecureChannelCredentials();
}

}  // namespace plimsoll::services
