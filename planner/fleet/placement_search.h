// Finds the best packing of a small problem by branch and bound.
#ifndef PLIMSOLL_PLANNER_FLEET_PLACEMENT_SEARCH_H_
#define PLIMSOLL_PLANNER_FLEET_PLACEMENT_SEARCH_H_

#include <cstdint>

#include "planner/fleet/placement_packing.h"

namespace plimsoll::planner {

// Larger problems are not searched.
inline constexpr int64_t kMaxSearchReplicas = 64;
inline constexpr int64_t kMaxSearchDevices = 64;
// The search stops after it has tried this many devices for replicas.
inline constexpr int64_t kMaxSearchTrials = 200'000;

// Replaces `best` by a packing of a higher score if there is one. Returns true
// if the search was complete, so that `best` is optimal. The search ends early
// when `stop` has an error. `stop` must outlive `best`.
bool SearchPlacement(const PlacementProblem& problem, Packing& best,
                     const StopCheck& stop);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_FLEET_PLACEMENT_SEARCH_H_
