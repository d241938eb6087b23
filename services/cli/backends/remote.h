// Calls to a server at an address: channels, waiting and errors.
#ifndef PLIMSOLL_SERVICES_CLI_BACKENDS_REMOTE_H_
#define PLIMSOLL_SERVICES_CLI_BACKENDS_REMOTE_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/sync/steady_mutex.h"
#include "services/cli/flags/flags.h"

namespace plimsoll::cli {

// The deadline of a unary call.
inline constexpr std::chrono::seconds kUnaryTimeout{30};

// Connects lazily, without retries.
std::shared_ptr<grpc::Channel> Connect(const Endpoint& address);

// The status of a call to `address`. If no server answers there, the message
// says what to do.
absl::Status CallStatus(const grpc::Status& status, const Endpoint& address);

// Returns the status of a stream after its first message. If the connection
// broke, the message says that the rest is missing, and what to do.
absl::Status StreamStatus(const grpc::Status& status, const Endpoint& address);

// Waits for an asynchronous call. Ctrl-C cancels it.
class CallWaiter {
 public:
  // The call's callback calls this.
  void Done(const grpc::Status& status);
  // Errors: CallStatus; InterruptedError.
  absl::Status Wait(grpc::ClientContext& context, const Endpoint& address);

 private:
  // Returns true once the call is done, or false after a while.
  bool WaitOnce();

  SteadyMutex mu_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  grpc::Status status_ ABSL_GUARDED_BY(mu_);
};

// Starts a unary call with `start(context, done)` and waits for its answer.
// Without `timeout` it waits without limit.
absl::Status Call(absl::FunctionRef<void(grpc::ClientContext*,
                                         std::function<void(grpc::Status)>)>
                      start,
                  const Endpoint& address,
                  std::optional<std::chrono::seconds> timeout = kUnaryTimeout);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_REMOTE_H_
