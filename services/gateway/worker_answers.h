// The results of calls to workers: whether a worker was gone, and whether
// another one may be tried.
#ifndef PLIMSOLL_SERVICES_GATEWAY_WORKER_ANSWERS_H_
#define PLIMSOLL_SERVICES_GATEWAY_WORKER_ANSWERS_H_

#include <grpcpp/support/status.h>

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "base/stop_check.h"
#include "base/sync/steady_notification.h"
#include "plimsoll/v1/generation.pb.h"

namespace grpc {
class ClientContext;
}  // namespace grpc

namespace plimsoll::services {

struct HttpRequest;

// The most workers that one request is sent to, one after the other.
inline constexpr int kMaxTries = 3;

// Returns whether nobody answered or the connection broke. Errors that a worker
// itself returns differ from these by their details.
bool IsGone(const grpc::Status& status);
// Returns whether another worker may succeed: IsGone, or the worker drains, has
// lost its device, or has not loaded the model.
bool MayDoBetter(const grpc::Status& status);
// The status for the client.
absl::Status StatusOfAnswer(const grpc::Status& status);

// Adds the client's data for the worker: the request's id and the tenant.
void AddCaller(const HttpRequest& request, grpc::ClientContext& context);

// Waits until a call has notified `done`. Cancels the call once `stop` has an
// error. Errors: that of `stop`.
absl::Status AwaitAnswer(SteadyNotification& done, grpc::ClientContext& context,
                         StopCheck stop);

inline constexpr size_t kLeastKeyBytes = 256;
inline constexpr size_t kMostKeyBytes = 1'024;
// Returns the key for a request that names none. It is made of the model and
// the beginning of the input, because workers keep the work of prompts that
// begin alike. A conversation begins with its first messages, as many as have
// kLeastKeyBytes. A text or a list of ids begins with kMostKeyBytes, or with
// kLeastKeyBytes if it is shorter. The key is empty if the input is so short
// that workers keep no work of it.
std::string PrefixKey(const v1::StreamGenerateRequest& request);

// Checks that a message has everything that `request` asks for about each
// token.
// Errors: kUnimplemented if a worker of an earlier version leaves it out.
absl::Status CheckTokens(const v1::StreamGenerateRequest& request,
                         const v1::StreamGenerateResponse& message);

// Appends a message of a stream to the messages before it.
void AppendMessage(v1::StreamGenerateResponse& message,
                   v1::StreamGenerateResponse& all);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GATEWAY_WORKER_ANSWERS_H_
