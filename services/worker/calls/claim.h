// Reads from a call's metadata who calls and how urgent it is: x-tenant and
// x-priority.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_CLAIM_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_CLAIM_H_

#include <grpcpp/server_context.h>

#include <cstddef>

#include "absl/status/statusor.h"
#include "worker/scheduling/fair_queue.h"

namespace plimsoll::services {

inline constexpr size_t kMaxTenantBytes = 64;

// x-tenant is printable ASCII; without it the call is of nobody in particular.
// x-priority is low, normal or high; without it, normal. Nobody proves who they
// are, so all names that come from one peer share what one peer gets.
// Errors: kInvalidArgument naming the key.
absl::StatusOr<worker::Claim> ClaimOf(
    const grpc::CallbackServerContext& context);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_CLAIM_H_
