// Calls to a server at an address: channels, waiting and errors.
#include "services/cli/backends/remote.h"

#include <grpcpp/create_channel.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/sync/fault.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/server/access/keepalive.h"
#include "services/server/credentials.h"
#include "services/wire/broken_connection.h"
#include "services/wire/errors.h"

namespace plimsoll::cli {
namespace {

constexpr absl::string_view kHostHint =
    "\n  try: see whether that host is up, and the network to it";

bool IsTimeout(absl::string_view reason) {
  return absl::StrContains(reason, "timed out") ||
         absl::StrContains(reason, "keepalive");
}

// Says what to do where there is no connection, for gRPC's reason.
absl::string_view HintFor(absl::string_view reason,
                          const services::ClientSecurity& security) {
  if (absl::StrContains(reason, "Verification Check failed")) {
    return "\n  try: a name that the server's certificate is for";
  }
  if (absl::StrContains(reason, "handshake failed")) {
    return "\n  try: a --tls-ca that the server's certificate comes from; or "
           "none, if it\n       speaks no TLS";
  }
  if (IsTimeout(reason)) return kHostHint;
  // A connection that has never stood; others end so as well.
  const bool is_closed = absl::StartsWith(reason, "failed to connect") &&
                         (absl::StrContains(reason, "Socket closed") ||
                          absl::StrContains(reason, "Connection reset"));
  if (is_closed && security.is_tls()) {
    return "\n  try: --tls-client-cert and --tls-client-key, if the server "
           "wants a certificate";
  }
  if (is_closed) return "\n  try: --tls-ca FILE, if the server speaks TLS";
  return "\n  try: start plimsoll-worker or plimsoll-planner there, or leave "
         "the address out\n       to run in this process";
}

// Whether gRPC itself says so, and no server.
bool IsFromNobody(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         status.error_details().empty();
}

}  // namespace

std::shared_ptr<grpc::Channel> Connect(const Endpoint& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  services::SetKeepalive(arguments);
  return grpc::CreateCustomChannel(
      address.address,
      services::NewChannelCredentials(address.security, address.address),
      arguments);
}

absl::Status CallStatus(const grpc::Status& status, const Endpoint& address) {
  if (!IsFromNobody(status)) return services::FromGrpc(status);
  const std::string& reason = status.error_message();
  return absl::UnavailableError(
      absl::StrCat("nobody answers at ", address.address, " (", reason, ")",
                   HintFor(reason, address.security)));
}

absl::Status StreamStatus(const grpc::Status& status, const Endpoint& address) {
  if (!IsFromNobody(status)) return services::FromGrpc(status);
  const std::string& reason = status.error_message();
  return absl::UnavailableError(
      absl::StrCat("the connection to ", address.address, " broke (", reason,
                   "), and the rest is missing",
                   IsTimeout(reason) ? kHostHint
                                     : "\n  try: see whether that server still "
                                       "runs, and the network to it"));
}

void CallWaiter::Done(const grpc::Status& status) {
  SteadyMutexLock lock(&mu_);
  status_ = status;
  if (PLIMSOLL_FAULT("cli.answer")) status_ = services::BrokenConnection();
  done_ = true;
}

absl::Status CallWaiter::Wait(grpc::ClientContext& context,
                              const Endpoint& address) {
  while (!WaitOnce()) {
    if (!Interrupted()) continue;
    context.TryCancel();
    while (!WaitOnce()) continue;
    return InterruptedError();
  }
  SteadyMutexLock lock(&mu_);
  return CallStatus(status_, address);
}

absl::Status Call(absl::FunctionRef<void(grpc::ClientContext*,
                                         std::function<void(grpc::Status)>)>
                      start,
                  const Endpoint& address,
                  std::optional<std::chrono::seconds> timeout) {
  grpc::ClientContext context;
  if (timeout.has_value()) {
    context.set_deadline(std::chrono::system_clock::now() + *timeout);
  }
  CallWaiter waiter;
  start(&context,
        [&waiter](const grpc::Status& status) { waiter.Done(status); });
  return waiter.Wait(context, address);
}

bool CallWaiter::WaitOnce() {
  SteadyMutexLock lock(&mu_);
  return mu_.AwaitFor(absl::Condition(&done_), kInterruptPoll);
}

}  // namespace plimsoll::cli
