// How both ends of a connection prove who they are. Every server and every
// client of this project takes its credentials from here.
#ifndef PLIMSOLL_SERVICES_SERVER_CREDENTIALS_H_
#define PLIMSOLL_SERVICES_SERVER_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>

namespace plimsoll::services {

// Plain text in both directions: nobody is asked who they are, so the network
// must be trusted (SECURITY.md).
std::shared_ptr<grpc::ServerCredentials> NewServerCredentials();
std::shared_ptr<grpc::ChannelCredentials> NewChannelCredentials();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_CREDENTIALS_H_
