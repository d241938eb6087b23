// Plans several models in one process on one device: a model and its draft, or
// a few models that share the memory.
#ifndef PLIMSOLL_PLANNER_LAYOUT_MODEL_SET_H_
#define PLIMSOLL_PLANNER_LAYOUT_MODEL_SET_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/stop_check.h"
#include "planner/layout/memory_plan.h"

namespace plimsoll::planner {

inline constexpr int64_t kMaxModelsInSet = 64;
// Layers of all models together: 256 for each.
inline constexpr int64_t kMaxLayersInSet = 256 * kMaxModelsInSet;

struct SetMember {
  ModelShape shape;
  PlanOptions options;
};

struct SetPlan {
  std::vector<MemoryPlan> plans;  // by member
  int64_t total_bytes;            // all members; the process counts once
  int64_t budget_bytes;
  bool fits;
};

// Plans all members within one budget. Members that request no context all get
// the same one, each up to its own limit. It is the largest with which all
// members fit. So a draft model is planned with the context that it will have.
// Errors: kInvalidArgument for no members or more than kMaxModelsInSet, and
// beyond kMaxLayersInSet; those of Layout, with the member's number in front;
// those of `stop`, which is called for each member and each context that is
// tried.
absl::StatusOr<SetPlan> PlanSet(const std::vector<SetMember>& members,
                                const DeviceProfile& profile,
                                int64_t budget_bytes,
                                StopCheck stop = NeverStop);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_MODEL_SET_H_
