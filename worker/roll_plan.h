// When a rolling context is full, and what leaves it then: pure arithmetic over
// the memory plan.
#ifndef PLIMSOLL_WORKER_ROLL_PLAN_H_
#define PLIMSOLL_WORKER_ROLL_PLAN_H_

#include <cstdint>
#include <limits>

#include "absl/status/statusor.h"
#include "planner/memory_plan.h"
#include "planner/model_shape.h"
#include "worker/engine.h"

namespace plimsoll::worker {

// Of one sequence, fixed when it is submitted. The default is that of a
// context that never rolls.
struct RollPlan {
  int64_t prefix_tokens = 0;  // the first ones, which never leave
  // Tokens that are attended when the context is full: n_ctx, less what the
  // last page of the prefix leaves empty.
  int64_t capacity = std::numeric_limits<int64_t>::max();
  int64_t evict_tokens = 0;  // that leave a full context at once, whole pages
  RollMethod method = RollMethod::kShift;
};

// The plan of a request. Fullness and evictions do not depend on how the
// sequence is cut into chunks. `evict_to` is raised to prefix + window + one
// page, so that the widest ring keeps `window` recent tokens; where n_ctx does
// not allow that, the method is kRecompute.
// Errors: kInvalidArgument naming pin_tokens or evict_to, with the numbers, if
// they make no sense or the prefix leaves fewer than two pages.
absl::StatusOr<RollPlan> PlanRoll(const planner::ModelShape& shape,
                                  const planner::MemoryPlan& plan,
                                  const GenerateOptions& options);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ROLL_PLAN_H_
