// Reports what a worker's models do, and ends their requests, for AdminService.
#ifndef PLIMSOLL_SERVICES_WORKER_CALLS_ADMIN_H_
#define PLIMSOLL_SERVICES_WORKER_CALLS_ADMIN_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "plimsoll/v1/admin.pb.h"
#include "services/worker/models/model_registry.h"

namespace plimsoll::services {

// The most requests of a model that are listed; the others are only counted.
inline constexpr size_t kMaxListedRequests = 256;
// Limits of one Abort call.
inline constexpr int kMaxAbortIds = 256;
inline constexpr size_t kMaxAbortReasonBytes = 256;

// Returns what every loaded model does, by name.
std::vector<v1::ModelActivity> Activity(ModelRegistry& registry);

// Ends the requests that `request` names.
// Errors: kInvalidArgument naming the field.
absl::StatusOr<v1::AbortResponse> Abort(ModelRegistry& registry,
                                        const v1::AbortRequest& request);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_CALLS_ADMIN_H_
