// Calls to a server at an address: channels, waiting and errors.
#include "services/cli/backends/remote.h"

#include <grpcpp/create_channel.h>

#include "absl/strings/str_cat.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/server/credentials.h"
#include "services/wire/errors.h"

namespace plimsoll::cli {

std::shared_ptr<grpc::Channel> Connect(const Endpoint& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(
      address.address, services::NewChannelCredentials(address.security),
      arguments);
}

absl::Status CallStatus(const grpc::Status& status, const Endpoint& address) {
  absl::Status result = services::FromGrpc(status);
  if (result.code() == absl::StatusCode::kUnavailable &&
      services::DetailsOf(result).metadata.empty() &&
      status.error_details().empty()) {
    return absl::UnavailableError(absl::StrCat(
        "nobody answers at ", address.address, " (", result.message(),
        ")\n  try: start plimsoll-worker or plimsoll-planner "
        "there, or leave the address out\n       to run in this "
        "process"));
  }
  return result;
}

void CallWaiter::Done(const grpc::Status& status) {
  absl::MutexLock lock(&mu_);
  status_ = status;
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
  absl::MutexLock lock(&mu_);
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
  absl::MutexLock lock(&mu_);
  return mu_.AwaitWithTimeout(absl::Condition(&done_), kInterruptPoll);
}

}  // namespace plimsoll::cli
