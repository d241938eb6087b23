// Reads from a call's metadata who calls and how urgent it is: x-tenant and
// x-priority.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_CLAIM_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_CLAIM_H_

#include <grpcpp/server_context.h>

#include <cstddef>

#include "absl/status/statusor.h"
#include "services/server/call_gate.h"
#include "worker/scheduling/fair_queue.h"

namespace plimsoll::services {

inline constexpr size_t kMaxTenantBytes = 64;

// x-tenant is printable ASCII; a call without it belongs to nobody in
// particular. If `gate` has a guard, the tenant is that of the proven caller
// (TenantOf). x-priority is low, normal or high; without it, normal. All names
// that come from one peer share what one peer gets.
// Errors: kInvalidArgument naming the key; kUnauthenticated if the call's token
// has become invalid.
absl::StatusOr<worker::Claim> ClaimOf(
    const grpc::CallbackServerContext& context, const CallGate& gate);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_CLAIM_H_
