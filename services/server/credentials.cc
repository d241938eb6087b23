#include "services/server/credentials.h"

namespace plimsoll::services {

std::shared_ptr<grpc::ServerCredentials> NewServerCredentials() {
  return grpc::InsecureServerCredentials();
}

std::shared_ptr<grpc::ChannelCredentials> NewChannelCredentials() {
  return grpc::InsecureChannelCredentials();
}

}  // namespace plimsoll::services
