// How many idle sessions a plan has places for.
#ifndef PLIMSOLL_PLANNER_LAYOUT_IDLE_SESSIONS_H_
#define PLIMSOLL_PLANNER_LAYOUT_IDLE_SESSIONS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "planner/layout/memory_plan.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

// The options' n_idle_sessions or, where they have idle_session_bytes, the most
// places that these bytes have room for, at most kMaxIdleSessions. A place is
// what a sequence keeps beside pages if its context is as long as the model was
// trained for. So the number does not depend on the context, which the plan may
// have to find yet, and a shorter context may take fewer bytes than allowed.
// It is 0 for a model without rings and states.
//
// Errors: kInvalidArgument if both are given, or if the bytes are above 0 and
// below those of one place; kOutOfRange on overflow.
absl::StatusOr<int64_t> DecideIdleSessions(const ModelShape& shape,
                                           const PlanOptions& options);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_IDLE_SESSIONS_H_
