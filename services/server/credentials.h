// The credentials by which both ends of a connection prove their identity.
// Every server and every client of this project takes its credentials from
// here.
#ifndef PLIMSOLL_SERVICES_SERVER_CREDENTIALS_H_
#define PLIMSOLL_SERVICES_SERVER_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_context.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "absl/strings/string_view.h"
#include "services/server/access/identity.h"
#include "services/server/access/roles.h"
#include "services/server/call_guard.h"
#include "services/server/tls_files.h"

namespace plimsoll::services {

// The credentials of a server, which are plain text if `tls` is off. Methods
// that are not in `served` are refused. `guard` decides about every other call;
// null: all calls are taken. Requires that CheckServerTls found no error. The
// files of `tls` are checked every second, and later connections use their new
// contents.
std::shared_ptr<grpc::ServerCredentials> NewServerCredentials(
    const ServerTls& tls, std::shared_ptr<CallGuard> guard,
    ServedMethods served = {});

// Plain text for connections through a Unix socket whose processes are in
// `local_class` of the guard.
std::shared_ptr<grpc::ServerCredentials> NewLocalCredentials(
    std::shared_ptr<CallGuard> guard, size_t local_class,
    ServedMethods served = {});

// The credentials of a channel to `address`, which are plain text without a CA;
// a token is then sent to this machine only. Requires that CheckClientSecurity
// found no error. The files are checked every second, like a server's files.
std::shared_ptr<grpc::ChannelCredentials> NewChannelCredentials(
    const ClientSecurity& security, absl::string_view address);

// Returns the class of the process that makes a call through a Unix socket
// (CallGuard::LocalClassOf); nothing for other calls.
std::optional<size_t> LocalClassOf(const grpc::CallbackServerContext& context);

// Returns the caller of a call to a server with these credentials, by
// CallGuard::Identify from the call's token and connection.
std::optional<Identity> CallerOf(const grpc::CallbackServerContext& context,
                                 const CallGuard& guard);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_CREDENTIALS_H_
